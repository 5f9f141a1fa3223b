"""Convolutions of every geometry, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from .compiled import assert_same, few, gradients, whole_numbers


@st.composite
def geometries(draw: st.DrawFn, transposed: bool) -> tuple[Any, ...]:
    """Shapes of image and kernel, whether there is a bias, and the arguments of a convolution."""
    spatial = draw(st.integers(1, 3))

    def every(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=spatial, max_size=spatial))

    groups = draw(st.integers(1, 3))
    inputs, outputs = (groups * draw(st.integers(1, 2)) for _ in range(2))
    kernel, stride, padding, dilation = every(1, 3), every(1, 3), every(0, 2), every(1, 3)
    least = [1] * spatial if transposed else reaches(kernel, dilation, padding)
    image = [n + draw(st.integers(0, 4)) for n in least]
    extra = [draw(st.integers(0, max(s, g) - 1)) for s, g in zip(stride, dilation, strict=True)]
    if transposed:  # PyTorch's shape function, unlike the CPU, refuses results without elements
        rows = zip(image, stride, padding, reaches(kernel, dilation, [0] * spatial), strict=True)
        assume(all((n - 1) * s - 2 * p + reach > 0 for n, s, p, reach in rows))
    channels = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    return (
        [draw(st.integers(0, 2)), inputs, *image],
        [*channels, *kernel],
        outputs if draw(st.booleans()) else None,
        (stride, padding, dilation, transposed, extra if transposed else [0] * spatial, groups),
    )


def reaches(kernel: list[int], dilation: list[int], padding: list[int]) -> list[int]:
    rows = zip(kernel, dilation, padding, strict=True)
    return [max(g * (k - 1) + 1 - 2 * p, 1) for k, g, p in rows]


def check(geometry: tuple[Any, ...]) -> None:
    image, kernel, outputs, arguments = geometry
    operands = [whole_numbers(image), whole_numbers(kernel)]
    if outputs is not None:
        operands.append(whole_numbers([outputs]))

    def convolve(a: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> torch.Tensor:
        return torch.convolution(a, weight, bias, *arguments)

    assert_same(lambda *given: gradients(convolve, *given), *operands)


@few(20)
@given(geometries(transposed=False))
def test_a_convolution_and_its_gradients(geometry):
    check(geometry)


@few(20)
@given(geometries(transposed=True))
def test_a_transposed_convolution_and_its_gradients(geometry):
    check(geometry)
