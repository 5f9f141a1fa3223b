"""Convolutions by PyTorch's kernels, forward and both gradients."""

from dataclasses import dataclass

import pytest
import torch

from tests.engines.rewritten import assert_same, operator
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

aten = torch.ops.aten
FORWARD = "convolution"
INPUT = "convolution_input_gradient"
KERNEL = "convolution_kernel_gradient"


@dataclass(frozen=True)
class Case:
    """A convolution, and the kernel for its gradient by its input."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False
    extra: int = 0
    of_input: str = INPUT

    @property
    def geometry(self):
        dims = len(self.image) - 2
        numbers = ([n] * dims for n in (self.stride, self.padding, self.dilation))
        return [*numbers, self.transposed, [self.extra] * dims, self.groups]


CASES = {
    "pointwise": Case((4, 64, 14, 14), (96, 64, 1, 1), of_input=FORWARD),
    "one image, pointwise": Case((1, 64, 20, 20), (96, 64, 1, 1), of_input=FORWARD),
    "square": Case((4, 32, 12, 12), (48, 32, 3, 3), padding=1),
    "one image": Case((1, 32, 20, 20), (48, 32, 3, 3), padding=1),
    "strided": Case((4, 32, 13, 13), (48, 32, 3, 3), stride=2, padding=1),
    "uneven": Case((4, 32, 14, 14), (48, 32, 3, 3), stride=3, padding=1),
    "patches": Case((4, 8, 32, 32), (64, 8, 8, 8), stride=8),
    "dilated": Case((4, 32, 14, 14), (48, 32, 3, 3), padding=2, dilation=2),
    "groups": Case((4, 32, 14, 14), (64, 8, 3, 3), padding=1, groups=4),
    "strided groups": Case((4, 32, 14, 14), (64, 8, 3, 3), stride=2, padding=1, groups=4),
    "depthwise": Case((4, 32, 14, 14), (32, 1, 7, 7), padding=3, groups=32),
    "signal": Case((4, 32, 200), (48, 32, 3), padding=1),
    "volume": Case((2, 8, 8, 8, 8), (16, 8, 3, 3, 3), padding=1),
    "transposed": Case(
        (4, 48, 9, 9),
        (48, 32, 4, 4),
        stride=2,
        padding=1,
        extra=1,
        transposed=True,
        of_input=FORWARD,
    ),
}


def tensors(case, dtype):
    image, kernel = torch.rand(case.image).to(dtype), torch.rand(case.kernel).to(dtype)
    return image, kernel / case.kernel[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_forward(name, dtype):
    case = CASES[name]
    image, kernel = tensors(case, dtype)
    body = operator(aten.convolution.default, None, *case.geometry)
    assert_same(body, image, kernel, kernels=[INPUT if case.transposed else FORWARD])


@pytest.mark.parametrize("of", ["input", "kernel"])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name, of):
    case = CASES[name]
    image, kernel = tensors(case, torch.float32)
    result = aten.convolution(image, kernel, None, *case.geometry)
    mask = [of == "input", of == "kernel", False]
    body = operator(aten.convolution_backward.default, None, *case.geometry, mask)
    expected = case.of_input if of == "input" else KERNEL
    assert_same(body, torch.rand_like(result) / 8, image, kernel, kernels=[expected])


def test_an_image_with_its_channels_last():
    case = CASES["square"]
    image, kernel = tensors(case, torch.float32)

    def body(x: Builder, pixels: Value, kernel: Value) -> Value:
        convolve = operator(aten.convolution.default, None, *case.geometry)
        return convolve(x, x.transpose(pixels, [0, 3, 1, 2]), kernel)

    assert_same(body, image.permute(0, 2, 3, 1).contiguous(), kernel, kernels=[FORWARD])


def test_a_bias_in_bfloat16_is_added_before_rounding():
    case = CASES["square"]
    image, kernel = tensors(case, torch.bfloat16)
    bias = torch.rand(48).bfloat16()
    body = operator(aten.convolution.default, *case.geometry)
    assert_same(body, image, kernel, bias, kernels=[FORWARD])


@pytest.mark.parametrize(
    ("image", "kernel"), [((1, 4, 6, 6), (4, 4, 3, 3)), ((0, 32, 12, 12), (48, 32, 3, 3))]
)
def test_small_and_empty_ones_stay(image, kernel):
    def body(x: Builder, a: Value, b: Value) -> Value:
        return x.convolution(a, b, strides=[1, 1], padding=[(1, 1)] * 2, dilation=[1, 1])

    assert_same(body, torch.rand(image), torch.rand(kernel), kernels=[])


@pytest.mark.parametrize("padding", [(-1, -1), (0, 4), (3, 0)])
def test_padding_that_pytorch_has_not_stays(padding):
    def body(x: Builder, a: Value, b: Value) -> Value:
        return x.convolution(a, b, strides=[1, 1], padding=[padding] * 2, dilation=[1, 1])

    assert_same(body, torch.rand(4, 32, 12, 12), torch.rand(48, 32, 3, 3), kernels=[])


def test_the_gradient_of_few_channels_stays():
    kernel = torch.rand(64, 3, 7, 7)
    mask = [True, False, False]
    geometry = (None, [2, 2], [3, 3], [1, 1], False, [0, 0], 1, mask)
    body = operator(aten.convolution_backward.default, *geometry)
    grad, image = torch.rand(2, 64, 16, 16), torch.rand(2, 3, 32, 32)
    assert_same(body, grad, image, kernel, kernels=[])


def test_double_precision_stays():
    image, kernel = tensors(CASES["square"], torch.float64)
    body = operator(aten.convolution.default, None, *CASES["square"].geometry)
    assert_same(body, image, kernel, kernels=[])
