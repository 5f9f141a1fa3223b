"""A mode that runs every ATen operator twice: on the CPU, and as a compiled program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from torch_trainium.eager import calls
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, registry
from torch_trainium.lowering.emitted import tokens_of
from torch_trainium.lowering.proofs import DIFFERS, Proofs

NATIVE = ("is_same_size", "sym_", "_local_scalar_dense", "item", "resize_", "set_", "lift_fresh")

# Saved statistics, which PyTorch's CPU keeps narrow, or leaves out of inference; its shape
# functions, and other devices, do neither.
STATISTICS = {
    "aten::native_batch_norm": (1, 2),
    "aten::_native_batch_norm_legit": (1, 2),
    "aten::_native_batch_norm_legit.no_stats": (1, 2),
    "aten::_native_batch_norm_legit_no_training": (1, 2),
    "aten::_batch_norm_with_update": (1, 2),
    "aten::native_layer_norm": (1, 2),
    "aten::native_group_norm": (1, 2),
}


@contextmanager
def on_the_cpu() -> Iterator[None]:
    """Zero-dim CPU tensors are tensors like others, not numbers beside device tensors."""
    calls.numbers_on_cpu = False
    try:
        yield
    finally:
        calls.numbers_on_cpu = True


# Programs, which live as long as the process, that some case has noted.
_noted: set[int] = set()


class CompareWithCompiled(TorchDispatchMode):
    """Gives the CPU's results, and notes where the program's differ.

    Attributes:
        passed: how many calls of each overload agreed.
        failed: what was wrong with the others.
        unsupported: why an overload has no program.
        proofs: what programs consisted of, or why there was none, by functional overload.

    """

    def __init__(self) -> None:
        super().__init__()
        self.passed: Counter[str] = Counter()
        self.failed: dict[str, list[str]] = {}
        self.unsupported: dict[str, str] = {}
        self.proofs = Proofs()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not is_compared(func, args, kwargs):
            return func(*args, **kwargs)
        name = func.name()
        copied_args, copied_kwargs = copy_together((args, kwargs))
        error: Exception | None = None
        expected = None
        try:
            expected = func(*args, **kwargs)
        except (RuntimeError, IndexError, ValueError) as raised:
            error = raised
        try:
            with on_the_cpu():
                actual = calls.call(func, *copied_args, **copied_kwargs)
            self._note_program(func, args, kwargs, actual)
            if error is not None:
                self._fail(name, args, kwargs, f"returned, and the CPU raised {error}")
            else:
                self._compare(name, (args, kwargs), as_the_cpu(name, actual, expected), expected)
                self._compare(name, (args, kwargs), (copied_args, copied_kwargs), (args, kwargs))
                self.passed[name] += 1
        except LoweringError as unsupported:
            if error is None:
                self.unsupported.setdefault(name, f"{unsupported} ({describe(args, kwargs)})")
                self._note_problem(func, args, kwargs, expected, str(unsupported))
        except AssertionError as difference:
            self._note_problem(func, args, kwargs, expected, DIFFERS)
            self._fail(name, args, kwargs, " ".join(str(difference).split()))
        except Exception as raised:  # noqa: BLE001 - whatever the program does wrong is a finding
            if error is None:
                self._fail(name, args, kwargs, f"{type(raised).__name__}: {raised}")
        if error is not None:
            raise error
        return expected

    def _compare(self, name: str, where: Any, actual: Any, expected: Any) -> None:
        left = [t for t in tree_leaves(actual) if isinstance(t, torch.Tensor)]
        right = [t for t in tree_leaves(expected) if isinstance(t, torch.Tensor)]
        assert len(left) == len(right), f"{len(left)} results, not {len(right)}"
        for got, wanted in zip(left, right, strict=True):
            if got.dtype.itemsize == 1 and got.dtype.is_floating_point:
                assert got.dtype == wanted.dtype
                got, wanted = got.float(), wanted.float()
            torch.testing.assert_close(got, wanted, equal_nan=True)
            if wanted.numel():
                strides = [s for n, s in zip(wanted.shape, wanted.stride(), strict=True) if n > 1]
                given = [s for n, s in zip(got.shape, got.stride(), strict=True) if n > 1]
                assert given == strides, f"strides {given}, not {strides}"

    def _note_program(self, func: Any, args: Any, kwargs: Any, results: Any) -> None:
        tensors = tensors_of(func, args, kwargs, results)
        is_trivial = tensors[0].dim() == 0 or not all(t.numel() for t in tensors)
        for entry in calls.operator(func).entries.values():
            if id(entry) in _noted:
                continue
            _noted.add(id(entry))
            module = entry.plan.module
            self.proofs.record(
                functional_name(func),
                [t.dtype for t in tensors],
                tokens_of(module) if module is not None else (),
                is_trivial=is_trivial or module is None,
            )

    def _note_problem(self, func: Any, args: Any, kwargs: Any, results: Any, problem: str) -> None:
        tensors = [t.dtype for t in tensors_of(func, args, kwargs, results)]
        self.proofs.record_problem(functional_name(func), tensors, problem)

    def _fail(self, name: str, args: Any, kwargs: Any, message: str) -> None:
        self.failed.setdefault(name, []).append(f"{describe(args, kwargs)}: {message}")


def functional_name(func: Any) -> str:
    """The overload that proofs of this one are kept under."""
    functional = None
    with suppress(LoweringError):
        functional = dispatch.functional_form(func)
    return registry.qualified_name(functional or func)


def tensors_of(func: Any, args: Any, kwargs: Any, results: Any) -> list[torch.Tensor]:
    """A call's tensors: arguments as the schema orders them, then results."""
    bound = list(dispatch.bind(func, args, kwargs).values())
    return [t for t in tree_leaves((bound, results)) if isinstance(t, torch.Tensor)]


def as_the_cpu(name: str, actual: Any, expected: Any) -> Any:
    """Results with saved statistics as the CPU keeps them."""
    if name not in STATISTICS:
        return actual
    results = list(actual)
    for i in STATISTICS[name]:
        kept = expected[i]
        results[i] = results[i].to(kept.dtype) if kept.numel() else kept
    return tuple(results)


def is_compared(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator computes something: no view, no random number, no host read."""
    schema = func._schema
    if func.namespace not in ("aten", "prims") or schema.name.startswith("prim"):
        return False
    if func.is_view or torch.Tag.inplace_view in func.tags:
        return False
    if not (schema.returns or schema.is_mutable):
        return False
    if torch.Tag.nondeterministic_seeded in func.tags:
        return False
    if any(schema.name.removeprefix("aten::").startswith(name) for name in NATIVE):
        return False
    if "empty" in schema.name or torch.Tag.data_dependent_output in func.tags:
        return False
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    return all(t.layout is torch.strided and t.device.type == "cpu" for t in tensors)


def copy_together(tree: Any) -> Any:
    """Copies of all tensors with their strides; tensors that share memory go on sharing it."""
    storages: dict[int, torch.Tensor] = {}
    copies: dict[int, torch.Tensor] = {}
    kept: list[torch.Tensor] = []  # so that no id is given to another tensor

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in copies:
            value, original = value.resolve_conj().resolve_neg(), value
            storage = value.untyped_storage()
            if storage._cdata not in storages:
                flat = torch.empty(0, dtype=torch.uint8).set_(storage)
                storages[storage._cdata] = flat.clone()
            made = torch.empty(0, dtype=value.dtype)
            made.set_(
                storages[storage._cdata].untyped_storage(),
                value.storage_offset(),
                value.shape,
                value.stride(),
            )
            copies[id(original)] = made
            kept.append(value)
            return made
        return copies[id(value)]

    return tree_map(copy, tree)


def describe(args: Any, kwargs: Any) -> str:
    """Arguments in a line: f32[2, 3](3, 1), 0.5, dim=1."""

    def show(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            layout = "" if value.is_contiguous() else f"{tuple(value.stride())}"
            return f"{dtype}{list(value.shape)}{layout}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(show, value))}]"
        return repr(value)

    return ", ".join([*map(show, args), *(f"{k}={show(v)}" for k, v in kwargs.items())])
