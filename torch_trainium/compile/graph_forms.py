"""Operators that give something else in a graph than in eager mode.

PyTorch's decompositions tell fake tensors of accelerators what CUDA's kernels give, and eager mode
here gives what the CPU's do.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_trainium.lowering import dispatch, dtypes
from torch_trainium.lowering.builder import Builder

aten = torch.ops.aten


def batch_norm(x: Builder, overload: Any, args: Any, kwargs: Any) -> list[Any]:
    """The statistics are kept in float32, and those that were given where no new ones are."""
    given = list(dispatch.lower_call(x, overload, args, kwargs))
    taken = dispatch.bind(overload, args, kwargs)
    wide = dtypes.compute_dtype(taken["input"].dtype)
    mean, scale = given[1:3]
    if taken["input"].shape[1] and not mean.size:
        mean, eps = taken["running_mean"], x.number(taken["eps"], wide)
        scale = x.rsqrt(taken["running_var"].to(wide) + eps)
    given[1:3] = mean.to(wide), scale.to(wide)
    return given


LOWERINGS = {
    aten.native_batch_norm.default: batch_norm,
    aten._native_batch_norm_legit_functional.default: batch_norm,
    aten._native_batch_norm_legit_no_training.default: batch_norm,
    aten._native_batch_norm_legit.no_stats: batch_norm,
}
