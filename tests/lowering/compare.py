"""A mode that compares every ATen operator on the device with the CPU's, on the same arguments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._dynamo.utils
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.conformance.compare import Comparison
from tests.conformance.mirror import Mirror
from torch_trainium.eager import calls, data_dependent
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch
from torch_trainium.lowering.proofs import DIFFERS, Proofs
from torch_trainium.lowering.uses import use_of
from torch_trainium.neuron.cpu_fallbacks import fallback_is

from . import invariants
from .programs import first_dtype, functional_name, noted_programs, record_program
from .references import REFERENCES
from .ties import settle

DOUBLES = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    torch.complex64: torch.complex128,
}

# What the CPU says where it has nothing to compare with: a dtype that only devices compute in.
NO_KERNEL = "not implemented for '"

# Nothing is computed: the host reads a number, or a storage changes its size.
WITHOUT_PROGRAM = ("is_same_size", "sym_", "_local_scalar_dense", "item", "resize_", "set_")


class AccurateComparison(Comparison):
    """Results agree where they are close, or as accurate: sums in another order may be neither.

    As accurate is what PyTorch's benchmarks of compilers take it to be (`same`): the distance from
    the same operator in float64 is at most a small multiple of the CPU's.

    Args:
        device: where the results come from.
        reference: gives the operator's results and arguments in float64; None where random
            numbers make values incomparable.

    """

    def __init__(self, device: str, reference: Callable[[], Any] | None) -> None:
        super().__init__(device, values=reference is not None)
        self.as_accurate = False
        self._reference = reference
        self._references: list[torch.Tensor] | None = None

    def _lazy(self, actual: torch.Tensor, expected: torch.Tensor, where: str) -> None:
        # What the CPU leaves for whoever reads a result, a program has done.
        if actual.is_conj() or actual.is_neg():
            super()._lazy(actual, expected, where)

    def _not_close(
        self, actual: torch.Tensor, expected: torch.Tensor, where: str, message: str
    ) -> None:
        if expected.dtype in DOUBLES and self._reference is not None:
            if self._references is None:
                self._references = tree_leaves(self._reference())
            # Which result it is need not be known: it is the one that the CPU's is nearest to.
            candidates = [
                exact
                for exact in self._references
                if isinstance(exact, torch.Tensor)
                and exact.dtype is DOUBLES[expected.dtype]
                and exact.shape == expected.shape
            ]
            exact = min(candidates, key=lambda exact: _distance(expected, exact), default=None)
            if exact is not None and _same(expected, actual, exact):
                self.as_accurate = True
                return
        super()._not_close(actual, expected, where, message)


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """How far their elements lie apart in all, where that is finite."""
    apart = (a.to(b.dtype) - b).abs()
    return float(apart[apart.isfinite()].sum())


def _same(*tensors: torch.Tensor) -> bool:
    parts = [torch.view_as_real(t) if t.is_complex() else t for t in tensors]
    return torch._dynamo.utils.same(*parts, tol=1e-5, equal_nan=True, log_error=lambda *_: None)


def in_float64(func: Any, args: Any, kwargs: Any) -> Any:
    """An operator's results on the CPU in double precision, and what its arguments become."""

    def widen(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return DOUBLES.get(value, value)
        if not isinstance(value, torch.Tensor) or value.dtype not in DOUBLES:
            return value
        return value.to(DOUBLES[value.dtype])

    arguments = tree_map(widen, Mirror("neuron", "cpu")((tuple(args), dict(kwargs))))
    try:
        return REFERENCES.get(func.name(), func)(*arguments[0], **arguments[1]), arguments
    except (RuntimeError, IndexError, ValueError):
        return ()


class CompareWithCpu(TorchDispatchMode):
    """Gives the device's results, and notes where they are not the CPU's.

    An operator without a program runs on the host engine, so that what follows is compared too.

    Attributes:
        passed: how many calls of each overload agreed.
        as_accurate: how many of those by the second rule of `AccurateComparison`.
        failed: what was wrong with the others.
        unsupported: why an overload has no program.
        proofs: what the programs consist of.

    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.passed: Counter[str] = Counter()
        self.as_accurate: Counter[str] = Counter()
        self.failed: dict[str, list[str]] = {}
        self.unsupported: dict[str, str] = {}
        self.proofs = Proofs()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not has_program(func) or not self._is_on_device(args, kwargs):
            return func(*args, **kwargs)
        with lazy_bits():
            return self._compared(func, args, kwargs)

    def _compared(self, func: Any, args: Any, kwargs: Any) -> Any:
        cpu_args, cpu_kwargs = Mirror(self.device, "cpu")((tuple(args), dict(kwargs)))
        name, called_with = func.name(), describe(args, kwargs)
        found = self._comparison(func, args, kwargs)
        try:
            reference = REFERENCES.get(name, func)
            read_args, read_kwargs = materialized(func, cpu_args, cpu_kwargs)
            expected, refusal = reference(*read_args, **read_kwargs), None
        except (RuntimeError, IndexError, ValueError) as error:
            expected, refusal = None, error
        try:
            with noted_programs() as programs:
                actual = func(*args, **kwargs)
        except LoweringError as reason:
            if refusal is None:
                self.unsupported.setdefault(name, f"{reason} ({called_with})")
                self._note_problem(func, args, kwargs, expected, why(reason))
            with fallback_is("allow"):
                return func(*args, **kwargs)
        except Exception as error:
            if refusal is None:
                self._fail(name, f"{called_with}: {type(error).__name__}: {error}")
            raise
        if refusal is not None and NO_KERNEL in str(refusal):
            return actual
        if refusal is not None:
            self._fail(name, f"{called_with}: returned, and the CPU raised {refusal}")
            return actual
        for program in programs:
            record_program(self.proofs, program)
        if name in data_dependent.COMPOSITES:
            operators = data_dependent.COMPOSITES[name].operators
            self.proofs.record_composition(functional_name(func), operators)
        settle(func, args, kwargs, actual, expected)
        found.compare(actual, expected)
        found.compare([*args, *kwargs.values()], [*cpu_args, *cpu_kwargs.values()], "arguments")
        if _is_not_unique(func):
            results = Mirror(self.device, "cpu")(actual)
            found.problems += invariants.problems(func._schema.name, cpu_args, results, expected)
        for problem in found.problems:
            self._fail(name, f"{called_with}: {problem}")
        if found.problems:
            self._note_problem(func, cpu_args, cpu_kwargs, expected, DIFFERS)
        self.passed[name] += int(not found.problems)
        self.as_accurate[name] += int(found.as_accurate)
        return actual

    def _comparison(self, func: Any, args: Any, kwargs: Any) -> AccurateComparison:
        if torch.Tag.nondeterministic_seeded in func.tags or _is_not_unique(func):
            return AccurateComparison(self.device, None)
        # An operator that writes to its arguments is computed anew on what they were.
        if func._schema.is_mutable:
            args, kwargs = Mirror(self.device, "cpu")((tuple(args), dict(kwargs)))
        return AccurateComparison(self.device, lambda: in_float64(func, args, kwargs))

    def _is_on_device(self, args: Any, kwargs: Any) -> bool:
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        device = kwargs.get("device")
        made_there = device is not None and torch.device(device).type == self.device
        return all(tensor.layout is torch.strided for tensor in tensors) and (
            made_there or any(tensor.device.type == self.device for tensor in tensors)
        )

    def _note_problem(self, func: Any, args: Any, kwargs: Any, expected: Any, problem: str) -> None:
        if dispatch.is_composite(func):
            return  # the problem is another operator's
        dtype = first_dtype(func, args, kwargs, expected)
        if dtype is not None:
            name = functional_name(func)
            use = use_of(name, dispatch.bind(func, args, kwargs))
            self.proofs.record_problem(name, [dtype], problem, use=use)

    def _fail(self, name: str, message: str) -> None:
        self.failed.setdefault(name, []).append(" ".join(message.split()))


def _is_not_unique(func: Any) -> bool:
    return func._schema.name in invariants.CHECKS


# What reads conjugated and negated tensors as such.
LAZY_KEYS = (
    torch._C.DispatchKey.Conjugate,
    torch._C.DispatchKey.Negative,
    torch._C.DispatchKey.ZeroTensor,
)


@contextmanager
def lazy_bits() -> Iterator[None]:
    """Let kernels see conjugation: a mode that a gradient comes to finds it switched off."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in LAZY_KEYS:
        excluded = excluded.remove(key)
    included = torch._C._dispatch_tls_local_include_set()
    with torch._C._ForceDispatchKeyGuard(included, excluded):
        yield


def materialized(func: Any, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """A call's arguments as a program gets them: conjugated and negated, but for those written."""
    written = dispatch.written_arguments(func)
    names = [argument.name for argument in func._schema.arguments]

    def plain(name: str, value: Any) -> Any:
        if name in written:
            return value
        return tree_map(
            lambda v: v.resolve_conj().resolve_neg() if isinstance(v, torch.Tensor) else v, value
        )

    return (
        [plain(name, value) for name, value in zip(names, args, strict=False)],
        {name: plain(name, value) for name, value in kwargs.items()},
    )


def why(refusal: LoweringError) -> str:
    """The reason in a refusal, without what the user could do about it, and where."""
    reason = re.sub(r"^\S+ has no program on \w+: ", "", str(refusal))
    return re.sub(r"\. It would run on the CPU.*", "", reason, flags=re.DOTALL)


def has_program(func: Any) -> bool:
    """Whether an operator computes something on the device."""
    schema = func._schema
    if func.namespace not in ("aten", "prims") or schema.name.startswith("prim"):
        return False
    if func.is_view or torch.Tag.inplace_view in func.tags or "empty" in schema.name:
        return False
    if not (schema.returns or schema.is_mutable):
        return False
    return not schema.name.removeprefix("aten::").startswith(WITHOUT_PROGRAM)


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


@contextmanager
def on_the_cpu() -> Iterator[None]:
    """Programs run on CPU tensors; zero-dim ones are tensors like others, not numbers."""
    calls.numbers_on_cpu = False
    try:
        yield
    finally:
        calls.numbers_on_cpu = True
