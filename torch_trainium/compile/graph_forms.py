"""Operators that only graphs have, or that take or give something else there than in eager mode."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo import _trace_wrapped_higher_order_op as _flex_lib  # noqa: F401 - its operators

from torch_trainium.lowering import dispatch, dtypes
from torch_trainium.lowering.builder import Builder

aten = torch.ops.aten


def batch_norm(x: Builder, overload: Any, args: Any, kwargs: Any) -> list[Any]:
    """The statistics are kept in float32, and those that were given where no new ones are.

    PyTorch's decompositions tell fake tensors of accelerators what CUDA's kernels give, and eager
    mode here gives what the CPU's do.
    """
    given = list(dispatch.lower_call(x, overload, args, kwargs))
    taken = dispatch.bind(overload, args, kwargs)
    wide = dtypes.compute_dtype(taken["input"].dtype)
    mean, scale = given[1:3]
    if taken["input"].shape[1] and not mean.size:
        mean, eps = taken["running_mean"], x.number(taken["eps"], wide)
        scale = x.rsqrt(taken["running_var"].to(wide) + eps)
    given[1:3] = mean.to(wide), scale.to(wide)
    return given


def to_copy(x: Builder, overload: Any, args: Any, kwargs: Any) -> Any:
    """Tracing writes a number for a tensor that it knows."""
    if isinstance(args[0], (bool, int, float)):
        return x.number(args[0], kwargs["dtype"])
    return dispatch.lower_call(x, overload, args, kwargs)


def copy_(x: Builder, overload: Any, args: Any, kwargs: Any) -> Any:
    """Inside of a body only a new tensor is written to, and read no more but as the result."""
    return dispatch.lower_call(x, aten.copy.default, args, kwargs)


def zeros_and_scatter(x: Builder, overload: Any, args: Any, kwargs: Any) -> Any:
    """The gradient of a tensor that flex_attention's functions index."""
    shape, indices, values = args
    zeros = x.constant(0, values.dtype, shape)
    return x.call(aten.index_put.default, zeros, indices, values, True)


LOWERINGS = {
    aten._to_copy.default: to_copy,
    aten.copy_.default: copy_,
    torch.ops.flex_lib.zeros_and_scatter.default: zeros_and_scatter,
    aten.native_batch_norm.default: batch_norm,
    aten._native_batch_norm_legit_functional.default: batch_norm,
    aten._native_batch_norm_legit_no_training.default: batch_norm,
    aten._native_batch_norm_legit.no_stats: batch_norm,
}
