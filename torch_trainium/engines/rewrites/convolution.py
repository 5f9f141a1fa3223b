"""Convolutions and their gradients by PyTorch's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from torch_trainium.engines import mlir
from torch_trainium.engines.rewrites.rounding import replace, rounded
from torch_trainium.engines.rewrites.strided import Strided, element_of, shape_of, view_of

# Kernels compute in the result's type: float32 where operands are narrower.
ELEMENTS = ("f32", "f64", "bf16", "f16")
# Below, XLA's own loops take no more time than a call.
MIN_PRODUCTS = 1 << 16
# Where a batch, features and spatial dimensions lie in the image, outputs and inputs in the kernel.
PLAIN = "[b, f, {s}]x[o, i, {s}]->[b, f, {s}]"
OVER_BATCH = "[f, b, {s}]x[i, o, {s}]->[f, b, {s}]"


@dataclass(frozen=True)
class Call:
    """A kernel, its operands, and how a convolution's kernel moves over its image.

    Attributes:
        image, kernel, moved: spatial sizes: of the image, the kernel, and what these give.

    """

    target: str
    a: Strided
    b: Strided
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    moved: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def is_possible(self) -> bool:
        """Whether PyTorch has this geometry."""
        rows = zip(self.image, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        lengths = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in rows)
        return min(self.padding) >= 0 and lengths == self.moved

    @property
    def attributes(self) -> dict[str, Any]:
        """What its handler takes."""
        array, integer = ir.DenseI64ArrayAttr, ir.IntegerType.get_signless(64)
        return {
            "a": self.a.attribute(),
            "b": self.b.attribute(),
            "stride": array.get(self.stride),
            "padding": array.get(self.padding),
            "dilation": array.get(self.dilation),
            "groups": ir.IntegerAttr.get(integer, self.groups),
        }


def rewrite(operation: Any) -> bool:
    """Replace a `convolution`, with its rounding where that is all that is done with it."""
    product, element = operation.results[0], element_of(operation.operands[0])
    if element not in ELEMENTS or _products(operation) < MIN_PRODUCTS:
        return False
    call = _call(operation)
    if call is None or not call.is_possible:
        return False
    result = rounded(product, element) or product
    (value,) = mlir.custom_call(
        f"torch_trainium.kernel.{call.target}",
        [call.a.source, call.b.source],
        [result.type],
        call.attributes,
    )
    replace(operation, result, value)
    return True


def _products(operation: Any) -> int:
    """About how many multiplications; as many as there are for the gradients."""
    a, b, result = (shape_of(v) for v in (*operation.operands, *operation.results))
    return min(prod(a) * prod(b[2:]), prod(result) * prod(a[2:])) * result[1]


def _call(operation: Any) -> Call | None:
    """The kernel that computes the same; None where there is none."""
    a, b = operation.operands
    result = operation.results[0]
    image, kernel, moved = (shape_of(v)[2:] for v in (a, b, result))
    spatial = len(image)
    stride = _numbers(operation.window_strides, spatial, 1)
    spacing = _numbers(operation.lhs_dilation, spatial, 1)
    dilation = _numbers(operation.rhs_dilation, spatial, 1)
    low = tuple(pair[0] for pair in _padding(operation, spatial))
    groups = operation.feature_group_count.value
    batch_groups = operation.batch_group_count.value
    if any(_numbers(operation.window_reversal, spatial, 0)):
        return None
    dimensions = str(operation.dimension_numbers)
    if dimensions == _dimensions(OVER_BATCH, spatial) and groups == max(spacing) == 1:
        target = "convolution_kernel_gradient"
        a, b = view_of(a), view_of(b)
        return Call(target, a, b, image, moved, kernel, dilation, low, stride, batch_groups)
    if dimensions != _dimensions(PLAIN, spatial) or batch_groups != 1:
        return None
    if max(spacing) == 1:
        a, b = view_of(a), view_of(b)
        return Call("convolution", a, b, image, kernel, moved, stride, low, dilation, groups)
    turned = _turned(b, groups)
    if turned is None or max(stride) > 1:
        return None
    reach = (d * (k - 1) for d, k in zip(dilation, kernel, strict=True))
    padding = tuple(r - p for r, p in zip(reach, low, strict=True))
    target = "convolution_input_gradient"
    return Call(target, view_of(a), turned, moved, kernel, image, spacing, padding, dilation, groups)


def _turned(kernel: Any, groups: int) -> Strided | None:
    """The kernel whose adjoint a reversed one is: (outputs, inputs of a group, ...)."""
    operation = kernel.owner
    spatial = list(range(2, len(shape_of(kernel))))
    if not isinstance(operation, ir.OpView) or operation.name != "stablehlo.reverse":
        return None
    if list(operation.dimensions) != spatial:
        return None
    inputs, outputs, *sizes = shape_of(kernel)
    apart = view_of(operation.operands[0]).reshape([groups, inputs // groups, outputs, *sizes])
    if apart is None:
        return None
    return apart.permute([0, 2, 1, *(d + 1 for d in spatial)]).reshape(
        [groups * outputs, inputs // groups, *sizes]
    )


def _dimensions(names: str, spatial: int) -> str:
    numbers = ", ".join(map(str, range(spatial)))
    return f"#stablehlo.conv<{names.replace('{s}', numbers)}>"


def _numbers(attribute: Any, count: int, default: int) -> tuple[int, ...]:
    return (default,) * count if attribute is None else tuple(attribute)


def _padding(operation: Any, spatial: int) -> list[tuple[int, int]]:
    attribute = operation.padding
    if attribute is None:
        return [(0, 0)] * spatial
    numbers = list(ir.DenseIntElementsAttr(attribute))
    return list(zip(numbers[::2], numbers[1::2], strict=True))
