"""Record what a device of PyTorch is asked to run, without running it.

A program on meta tensors goes through the dispatcher as on a device: composite operators
decompose, views are views. What reaches the end of the dispatcher is recorded with the
identity of every tensor, so one recording gives the operators of eager mode and the graph
that a compiler sees.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves


@dataclass(frozen=True, slots=True)
class TensorUse:
    """One tensor of one call. Views of one buffer have the same `buffer`."""

    buffer: int
    sizes: tuple[int, ...]
    dtype: str
    dense: bool
    permuted: bool = False


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One operator: `written` are positions in `inputs` that it changes in place."""

    name: str
    inputs: tuple[TensorUse, ...]
    outputs: tuple[TensorUse, ...]
    written: tuple[int, ...]
    is_view: bool
    ranks: int


@dataclass(frozen=True)
class Recording:
    """The operators of one run. `given` and `results` are buffers; parameters are given."""

    calls: tuple[RecordedCall, ...]
    given: frozenset[int]
    parameters: frozenset[int]
    results: frozenset[int]

    def device_calls(self) -> tuple[RecordedCall, ...]:
        """The calls that leave the host: all but views."""
        return tuple(call for call in self.calls if not call.is_view)


def record(run: Callable[[], object], parameters: Sequence[torch.Tensor] = ()) -> Recording:
    """Run `run` on meta tensors and record its operators; what it returns are the results."""
    recorder = _Recorder()
    weights = frozenset(recorder.buffer(p) for p in parameters)
    with recorder:
        returned = run()
    results = frozenset(
        recorder.buffer(leaf) for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)
    )
    made = {use.buffer for call in recorder.calls if not call.is_view for use in call.outputs}
    used = {use.buffer for call in recorder.calls for use in call.inputs}
    return Recording(tuple(recorder.calls), frozenset(used - made), weights, results)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[RecordedCall] = []
        self._buffers: dict[int, int] = {}
        # A freed storage would give its address to another one.
        self._alive: list[torch.Tensor] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        returned = func(*args, **kwargs)
        if func.name() in _UNSEEN:
            return returned
        given = _tensors((args, kwargs))
        changed = {id(tensor) for tensor in _written(func, args, kwargs)}
        inputs = tuple(self._use(tensor) for tensor in given)
        known = {id(tensor) for tensor in given}
        fresh = [tensor for tensor in _tensors(returned) if id(tensor) not in known]
        self.calls.append(
            RecordedCall(
                name=func.name(),
                inputs=inputs,
                outputs=tuple(self._use(tensor) for tensor in fresh),
                written=tuple(i for i, tensor in enumerate(given) if id(tensor) in changed),
                is_view=_shares(given, fresh),
                ranks=_ranks(args, kwargs) if func.namespace == "_c10d_functional" else 1,
            )
        )
        return returned

    def buffer(self, tensor: torch.Tensor) -> int:
        """The number of the storage of a tensor, counted from 0 in order of appearance."""
        address = tensor.untyped_storage()._cdata
        if address not in self._buffers:
            self._buffers[address] = len(self._buffers)
            self._alive.append(tensor)
        return self._buffers[address]

    def _use(self, tensor: torch.Tensor) -> TensorUse:
        dtype = str(tensor.dtype).removeprefix("torch.")
        return TensorUse(
            self.buffer(tensor), tuple(tensor.shape), dtype, _is_dense(tensor), _is_permuted(tensor)
        )


# Bookkeeping of the tracer and of functional collectives; no device sees them.
_UNSEEN = {"aten::detach", "_c10d_functional::wait_tensor", "aten::_assert_async.msg"}


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    written: list[torch.Tensor] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        in_order = position < len(args)
        value = args[position] if in_order else kwargs.get(argument.name)
        written.extend(_tensors(value))
    return written


def _shares(given: Sequence[torch.Tensor], fresh: Sequence[torch.Tensor]) -> bool:
    """True if every new tensor is a view of a given one."""
    storages = {tensor.untyped_storage()._cdata for tensor in given}
    return bool(fresh) and all(t.untyped_storage()._cdata in storages for t in fresh)


def _is_dense(tensor: torch.Tensor) -> bool:
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _is_permuted(tensor: torch.Tensor) -> bool:
    """True if the last dimension is not the innermost in memory."""
    return tensor.dim() >= 2 and tensor.shape[-1] > 1 and tensor.stride(-1) != 1


def _ranks(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The size of the group, which the name of a group of `accuracy.parallel` ends with."""
    names = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, str)]
    return int(names[-1].rpartition(":")[2])
