"""Convolutions and their gradients by PyTorch's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from torch_trainium.engines import mlir
from torch_trainium.engines.rewrites.strided import Strided, element_of, shape_of, view_of

# All in float32: PyTorch 2.13 computes some convolutions of bfloat16 wrongly on CPUs with AMX, such
# as one of 8 channels by a kernel of 8x8 with a stride of 8.
ELEMENTS = ("f32", "bf16", "f16")
# Below, XLA's own loops take no more time than a call.
MIN_PRODUCTS = 1 << 19
MIN_PRODUCTS_OF_GROUPS = 1 << 16
# The gradient of an image with few channels is slow by kernels, and by XLA where strides are long.
MIN_CHANNELS = 8
MIN_STRIDES = 16
# Where a batch, features and spatial dimensions lie in the image, outputs and inputs in the kernel.
PLAIN = "[b, f, {s}]x[o, i, {s}]->[b, f, {s}]"
OVER_BATCH = "[f, b, {s}]x[i, o, {s}]->[f, b, {s}]"


@dataclass(frozen=True)
class Call:
    """A kernel, its operands, and how a convolution's kernel moves over its image.

    Attributes:
        image, moved: spatial sizes of the image, and of what the kernel makes of it.
        kernel: (outputs, inputs of a group, spatial sizes...).

    """

    target: str
    a: Strided
    b: Strided
    image: tuple[int, ...]
    moved: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def is_possible(self) -> bool:
        """Whether PyTorch has this geometry."""
        kernel = self.kernel[2:]
        rows = zip(self.image, kernel, self.stride, self.padding, self.dilation, strict=True)
        lengths = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in rows)
        return min(self.padding) >= 0 and lengths == self.moved

    @property
    def is_slow(self) -> bool:
        """Whether it is a gradient for which PyTorch has no fast kernel."""
        if self.target != "convolution_input_gradient" or self.groups > 1:
            return False
        return self.kernel[1] < MIN_CHANNELS and prod(self.stride) < MIN_STRIDES

    @property
    def products(self) -> int:
        """How many multiplications, with those of zeros around the image."""
        return self.a.sizes[0] * prod(self.kernel) * prod(self.moved)

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
    """Replace a `convolution` that accumulates in float32."""
    (result,) = operation.results
    if element_of(operation.operands[0]) not in ELEMENTS or element_of(result) != "f32":
        return False
    call = _call(operation)
    if call is None or not call.is_possible or call.is_slow:
        return False
    if call.products < (MIN_PRODUCTS if call.groups == 1 else MIN_PRODUCTS_OF_GROUPS):
        return False
    (value,) = mlir.custom_call(
        f"torch_trainium.kernel.{call.target}",
        [call.a.source, call.b.source],
        [result.type],
        call.attributes,
    )
    result.replace_all_uses_with(value)
    operation.erase()
    return True


def _call(operation: Any) -> Call | None:
    """The kernel that computes the same; None where there is none."""
    a, b = operation.operands
    result = operation.results[0]
    image, kernel, moved = shape_of(a)[2:], shape_of(b), shape_of(result)[2:]
    spatial = len(image)
    stride = _numbers(operation.window_strides, spatial, 1)
    spacing = _numbers(operation.lhs_dilation, spatial, 1)
    dilation = _numbers(operation.rhs_dilation, spatial, 1)
    low = tuple(pair[0] for pair in _padding(operation, spatial))
    groups = operation.feature_group_count.value
    batch_groups = operation.batch_group_count.value
    if spatial == 0 or any(_numbers(operation.window_reversal, spatial, 0)):
        return None
    dimensions = str(operation.dimension_numbers)
    if dimensions == _dimensions(OVER_BATCH, spatial) and groups == max(spacing) == 1:
        target = "convolution_kernel_gradient"
        a, b, of = view_of(a), view_of(b), shape_of(result)
        return Call(target, a, b, image, kernel[2:], of, dilation, low, stride, batch_groups)
    if dimensions != _dimensions(PLAIN, spatial) or batch_groups != 1:
        return None
    turned = _turned(b, groups)
    if turned is not None and max(stride) == 1 and max(*spacing, *kernel[2:]) > 1:
        reach = (d * (k - 1) for d, k in zip(dilation, kernel[2:], strict=True))
        padding = tuple(r - p for r, p in zip(reach, low, strict=True))
        target = "convolution_input_gradient"
        a, of = view_of(a), turned.sizes
        return Call(target, a, turned, moved, image, of, spacing, padding, dilation, groups)
    if max(spacing) > 1:
        return None
    a, b = view_of(a), view_of(b)
    return Call("convolution", a, b, image, moved, kernel, stride, low, dilation, groups)


def _turned(kernel: Any, groups: int) -> Strided | None:
    """The kernel whose adjoint a reversed one is: (outputs, inputs of a group, ...)."""
    owner = kernel.owner
    spatial = list(range(2, len(shape_of(kernel))))
    if not isinstance(owner, ir.OpView) or owner.name != "stablehlo.reverse":
        return None
    operation: Any = owner
    if list(operation.dimensions) != spatial:
        return None
    outputs, inputs, *sizes = shape_of(kernel)
    value = operation.operands[0]
    if groups > 1:
        apart = _reshape(value, [groups, outputs // groups, inputs, *sizes])
        exchanged = stablehlo.transpose(apart, [0, 2, 1, *(d + 1 for d in spatial)])
        return view_of(_reshape(exchanged, [groups * inputs, outputs // groups, *sizes]))
    return view_of(value).permute([1, 0, *spatial])


def _reshape(value: Any, sizes: Sequence[int]) -> Any:
    type_ = ir.RankedTensorType.get(sizes, ir.RankedTensorType(value.type).element_type)
    return stablehlo.reshape(type_, value)


def _dimensions(names: str, spatial: int) -> str:
    numbers = ", ".join(map(str, range(spatial)))
    return f"#stablehlo.conv<{names.replace('{s}', numbers)}>"


def _numbers(attribute: Any, count: int, default: int) -> tuple[int, ...]:
    return (default,) * count if attribute is None else tuple(attribute)


def _padding(operation: Any, spatial: int) -> list[tuple[int, int]]:
    attribute = operation.padding
    if attribute is None:
        return [(0, 0)] * spatial
    elements: Any = ir.DenseIntElementsAttr(attribute)
    numbers = list(elements)
    return list(zip(numbers[::2], numbers[1::2], strict=True))
