"""Pooling over windows of every geometry, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.nn import functional

from .compiled import assert_same, few, gradients, whole_numbers


@st.composite
def windows(draw: st.DrawFn, max_dilation: int = 1) -> tuple[list[int], dict[str, Any]]:
    """The shape of a batch of images, and the arguments of a pooling that fits it."""
    spatial = draw(st.integers(1, 3))

    def every(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=spatial, max_size=spatial))

    kernel, dilation = every(1, 4), every(1, max_dilation)
    padding = [draw(st.integers(0, k // 2)) for k in kernel]
    rows = zip(kernel, dilation, padding, strict=True)
    image = [max(g * (k - 1) + 1 - 2 * p, 1) + draw(st.integers(0, 5)) for k, g, p in rows]
    arguments = {
        "kernel_size": kernel,
        "stride": every(1, 4),
        "padding": padding,
        "ceil_mode": draw(st.booleans()),
    }
    if max_dilation > 1:
        arguments["dilation"] = dilation
    return [draw(st.integers(1, 2)), draw(st.integers(1, 2)), *image], arguments


def pooling(name: str, shape: list[int]) -> Any:
    return getattr(functional, f"{name}{len(shape) - 2}d")


@few(15)
@given(windows(max_dilation=3), st.sampled_from([torch.float32, torch.bfloat16]), st.booleans())
def test_maxima_and_their_places(case, dtype, with_nan):
    shape, arguments = case
    image = whole_numbers(shape).to(dtype)
    if with_nan:
        image.view(-1)[:: max(image.numel() // 3, 1)] = float("nan")

    def pool(a: torch.Tensor) -> Any:
        return pooling("max_pool", shape)(a, return_indices=True, **arguments)

    assert_same(pool, image)
    assert_same(lambda a: gradients(pool, a), image)


@few(20)
@given(windows(), st.booleans(), st.sampled_from([None, 3]))
def test_means_and_their_gradients(case, count_include_pad, divisor):
    shape, arguments = case
    arguments["count_include_pad"] = count_include_pad
    if len(shape) > 3:
        arguments["divisor_override"] = divisor

    def pool(a: torch.Tensor) -> torch.Tensor:
        return pooling("avg_pool", shape)(a, **arguments)

    assert_same(lambda a: gradients(pool, a), whole_numbers(shape), exact=False)


@few(15)
@given(
    st.sampled_from(["adaptive_avg_pool", "adaptive_max_pool"]),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.data(),
)
def test_windows_that_follow_from_the_result(name, image, data):
    size = [data.draw(st.integers(1, 7)) for _ in image]
    shape = [1, 2, *image]

    def pool(a: torch.Tensor) -> torch.Tensor:
        return pooling(name, shape)(a, size)

    assert_same(lambda a: gradients(pool, a), whole_numbers(shape), exact=False)


@few(10)
@given(windows())
def test_elements_put_back_where_they_came_from(case):
    shape, arguments = case
    arguments = {**arguments, "ceil_mode": False, "stride": arguments["kernel_size"]}
    values, places = pooling("max_pool", shape)(
        whole_numbers(shape), return_indices=True, **arguments
    )
    assume(values.numel())

    def put_back(a: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return pooling("max_unpool", shape)(
            a, at, arguments["kernel_size"], padding=arguments["padding"], output_size=shape
        )

    assert_same(put_back, values, places)
