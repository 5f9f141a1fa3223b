"""Arrays as strided windows of earlier ones: kernels of PyTorch need no transposed copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from jaxlib.mlir import ir


@dataclass(frozen=True)
class Strided:
    """Elements of `source`, which is dense, by sizes and strides as PyTorch has them."""

    source: Any
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def permute(self, order: Sequence[int]) -> Strided:
        """Dimension i of the result is dimension `order[i]`."""
        sizes = tuple(self.sizes[d] for d in order)
        return replace(self, sizes=sizes, strides=tuple(self.strides[d] for d in order))

    def reshape(self, sizes: Sequence[int]) -> Strided | None:
        """The same elements in another shape; None where they have no strides there."""
        strides = _strides_in(self, sizes)
        if strides is None:
            return None
        return replace(self, sizes=tuple(sizes), strides=strides)

    def attribute(self) -> Any:
        """What a handler reads them by."""
        return ir.DictAttr.get(
            {
                "sizes": ir.DenseI64ArrayAttr.get(self.sizes),
                "strides": ir.DenseI64ArrayAttr.get(self.strides),
                "offset": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self.offset),
            }
        )


def shape_of(value: Any) -> tuple[int, ...]:
    """The sizes of an array."""
    return tuple(ir.RankedTensorType(value.type).shape)


def element_of(value: Any) -> str:
    """The element type of an array, such as "f32"."""
    return str(ir.RankedTensorType(value.type).element_type)


def dense(value: Any) -> Strided:
    """An array as itself."""
    sizes = shape_of(value)
    return Strided(value, sizes, dense_strides(sizes))


def dense_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    return tuple(prod(sizes[d + 1 :]) for d in range(len(sizes)))


def view_of(value: Any) -> Strided:
    """An array by the earliest one that has its elements."""
    owner = value.owner
    if not isinstance(owner, ir.OpView):
        return dense(value)  # an argument
    operation: Any = owner
    view = None
    if operation.name == "stablehlo.transpose":
        view = view_of(operation.operands[0]).permute(list(operation.permutation))
    elif operation.name == "stablehlo.reshape":
        view = view_of(operation.operands[0]).reshape(shape_of(value))
    elif operation.name == "stablehlo.broadcast_in_dim":
        view = _broadcast(view_of(operation.operands[0]), operation, shape_of(value))
    elif operation.name == "stablehlo.slice":
        view = _slice(view_of(operation.operands[0]), operation, shape_of(value))
    return view or dense(value)


def _slice(view: Strided, operation: Any, sizes: tuple[int, ...]) -> Strided:
    starts, steps = operation.start_indices, operation.strides
    strides = tuple(stride * step for stride, step in zip(view.strides, steps, strict=True))
    offset = sum(stride * start for stride, start in zip(view.strides, starts, strict=True))
    return Strided(view.source, sizes, strides, view.offset + offset)


def _broadcast(view: Strided, operation: Any, sizes: tuple[int, ...]) -> Strided:
    strides = [0] * len(sizes)
    for d, target in enumerate(operation.broadcast_dimensions):
        if view.sizes[d] == sizes[target]:
            strides[target] = view.strides[d]
    return replace(view, sizes=sizes, strides=tuple(strides))


def _strides_in(view: Strided, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The strides that `Tensor.view` finds, from the innermost dimension outwards."""
    if 0 in sizes:
        return dense_strides(sizes)
    chunks = _chunks(view)
    strides: list[int] = []
    length, stride = chunks.pop() if chunks else (1, 1)
    for size in reversed(sizes):
        if size == 1:
            strides.insert(0, stride)
            continue
        if length == 1:
            length, stride = chunks.pop()
        if length % size:
            return None
        strides.insert(0, stride)
        stride *= size
        length //= size
    return tuple(strides)


def _chunks(view: Strided) -> list[tuple[int, int]]:
    """Runs of dimensions that are one: (elements, stride), the outermost first."""
    chunks: list[tuple[int, int]] = []
    for size, stride in zip(view.sizes, view.strides, strict=True):
        if size == 1:
            continue
        if chunks and chunks[-1][1] == size * stride:
            size *= chunks.pop()[0]
        chunks.append((size, stride))
    return chunks
