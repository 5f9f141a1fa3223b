"""What the CPU has instead of operators that only devices have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """The results of the CPU's own fused kernel, in the order of the device's."""
    output, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=bias, scale=scale
    )
    state = torch.zeros((), dtype=torch.int64)
    lengths = query.shape[-2], key.shape[-2]
    return output, logsumexp.float().contiguous(), None, None, *lengths, state, state, None


def fused_attention_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: list[bool],
    output: Tensor,
    logsumexp: Tensor,
    *saved: Any,
    scale: float | None = None,
) -> tuple[Tensor | None, ...]:
    """The gradients by the CPU's own fused kernels, which have none of the bias.

    What the forward pass saved is computed again: the device rounds it, and notes a query that sees
    no key in its own way.
    """
    dropout_p, is_causal = saved[4:6]
    forward = aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=bias, scale=scale
    )
    results = aten._scaled_dot_product_flash_attention_for_cpu_backward(
        *(grad, query, key, value, *forward),
        *(dropout_p, is_causal),
        attn_mask=bias,
        scale=scale,
    )
    of_bias = None
    if mask[3]:
        assert bias is not None
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = query @ key.mT * factor + bias
        shares = scores.softmax(-1)
        of_shares = grad @ value.mT
        of_scores = shares * (of_shares - (of_shares * shares).sum(-1, keepdim=True))
        of_bias = of_scores.sum_to_size(bias.shape)
    laid_out = [
        torch.empty_like(operand).copy_(result) if is_wanted else None
        for operand, result, is_wanted in zip((query, key, value), results, mask, strict=False)
    ]
    return *laid_out, of_bias


REFERENCES: dict[str, Callable[..., Any]] = {
    "aten::_scaled_dot_product_fused_attention_overrideable": fused_attention,
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": fused_attention_backward,
}
