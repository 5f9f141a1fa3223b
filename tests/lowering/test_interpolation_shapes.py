"""Interpolation to every size, up and down, by size and by factor."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from .compiled import assert_same, few, gradients

RANKS = {
    "nearest": (1, 3),
    "nearest-exact": (1, 3),
    "area": (1, 3),
    "linear": (1, 1),
    "bilinear": (2, 2),
    "bicubic": (2, 2),
    "trilinear": (3, 3),
}
ALIGNED = ("linear", "bilinear", "bicubic", "trilinear")


@st.composite
def interpolations(
    draw: st.DrawFn, modes: tuple[str, ...], shortest: int = 1
) -> tuple[list[int], dict[str, Any]]:
    """The shape of a batch of images, and the arguments of an interpolation."""
    mode = draw(st.sampled_from(modes))
    fewest, most = RANKS[mode]
    image = draw(st.lists(st.integers(shortest, 7), min_size=fewest, max_size=most))
    arguments: dict[str, Any] = {"mode": mode}
    if mode in ALIGNED:
        arguments["align_corners"] = draw(st.booleans())
        if mode in ("bilinear", "bicubic"):
            arguments["antialias"] = draw(st.booleans())
    if draw(st.booleans()):
        arguments["size"] = [draw(st.integers(shortest, 9)) for _ in image]
    else:
        factors = [draw(st.sampled_from([0.5, 0.7, 1.0, 1.3, 2.0, 2.6])) for _ in image]
        rows = zip(factors, image, strict=True)
        arguments["scale_factor"] = [max(f, shortest / n) for f, n in rows]
        arguments["recompute_scale_factor"] = draw(st.sampled_from([None, True]))
    return [draw(st.integers(1, 2)), draw(st.sampled_from([3, 5])), *image], arguments


@few(35)
@given(interpolations(tuple(RANKS)))
def test_interpolation_and_its_gradient(case):
    shape, arguments = case
    image = torch.randn(shape)
    if arguments.get("antialias"):
        # The CPU takes columns of width 1 for rows where channels do not lie last.
        image = image.contiguous(memory_format=torch.channels_last)
    assert_same(
        lambda a: gradients(lambda a: functional.interpolate(a, **arguments), a), image, exact=False
    )


@few(30)
@given(interpolations(("bilinear", "bicubic"), shortest=2))  # the CPU fails at columns of width 1
def test_images_of_bytes(case):
    shape, arguments = case
    image = torch.randint(0, 256, shape, dtype=torch.uint8)
    assert_same(lambda a: functional.interpolate(a, **arguments), image)
