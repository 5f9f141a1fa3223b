"""Scaled dot-product attention, forward and backward.

Queries, keys and values are [..., heads, positions, channels]. Scores are computed and normalized
in float32; products with them take the operands' own dtype, as PyTorch's fused kernels do.
"""

from __future__ import annotations

import math

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


def _transposed(x: Builder, a: Value) -> Value:
    return x.transpose(a, [*range(a.rank - 2), a.rank - 1, a.rank - 2])


def _product(x: Builder, a: Value, b: Value) -> Value:
    return x.dot(a, b, accumulate=dtypes.compute_dtype(a.dtype))


def _per_query_head(x: Builder, a: Value, query: Value) -> Value:
    """Keys or values with as many heads as the queries: each serves a group of these."""
    heads, wanted = a.shape[-3], query.shape[-3]
    if heads == wanted:
        return a
    shape = [*a.shape[:-2], wanted // heads, *a.shape[-2:]]
    repeated = x.broadcast(x.unsqueeze(a, a.rank - 2), shape)
    return x.reshape(repeated, [*a.shape[:-3], wanted, *a.shape[-2:]])


def _per_key_head(x: Builder, grad: Value, like: Value) -> Value:
    """The adjoint: the sum over each group of query heads."""
    if grad.shape == like.shape:
        return grad
    group = grad.shape[-3] // like.shape[-3]
    grouped = x.reshape(grad, [*like.shape[:-2], group, *like.shape[-2:]])
    return x.sum(grouped, [grouped.rank - 3])


def _scale(x: Builder, query: Value, scale: Operand | None) -> Value:
    wide = dtypes.compute_dtype(query.dtype)
    return x.number(1 / math.sqrt(query.shape[-1]) if scale is None else scale, wide)


def _scores(
    x: Builder,
    query: Value,
    key: Value,
    bias: Value | None,
    is_causal: bool,
    scale: Value,
) -> Value:
    """What the softmax is taken of; minus infinity where a query must not see a key."""
    scores = _product(x, query, _transposed(x, key)) * scale
    never = x.constant(-math.inf, scores.dtype)
    if is_causal:
        shape = scores.shape[-2:]
        seen = x.iota(torch.int32, shape, 0) >= x.iota(torch.int32, shape, 1)
        scores = x.select(seen, scores, never)
    if bias is None:
        return scores
    if bias.dtype is torch.bool:
        return x.select(bias, scores, never)
    return scores + bias.to(scores.dtype)


def _shares(x: Builder, exponents: Value) -> tuple[Value, Value]:
    """Exponents by their sum, and the sum; a query that sees no key has no shares."""
    total = x.sum(exponents, [-1], keepdim=True)
    return exponents / x.select(total.eq(0), x.constant(1, total.dtype), total), total


def _attend(
    x: Builder,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    is_causal: bool,
    scale: Operand | None,
) -> tuple[Value, Value]:
    """The values' means by softmax, and the logarithm of each softmax's denominator."""
    key, value = _per_query_head(x, key, query), _per_query_head(x, value, query)
    scores = _scores(x, query, key, bias, is_causal, _scale(x, query, scale))
    largest = x.max(scores, [-1], keepdim=True)
    # A query that sees no key: its exponents are zero, not NaN.
    largest = x.select(largest.eq(-math.inf), x.constant(0, scores.dtype), largest)
    shares, total = _shares(x, x.exp(scores - largest))
    output = _product(x, shares.to(value.dtype), value).to(query.dtype)
    return output, x.squeeze(largest + x.log(total), [-1])


def _attend_backward(
    x: Builder,
    grad: Value,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    logsumexp: Value,
    is_causal: bool,
    scale: Operand | None,
) -> tuple[Value, Value, Value, Value]:
    """The gradients of query, key, value and scores."""
    keys, values = _per_query_head(x, key, query), _per_query_head(x, value, query)
    factor = _scale(x, query, scale)
    scores = _scores(x, query, keys, bias, is_causal, factor)
    normalizer = x.reshape(logsumexp.to(scores.dtype), [*query.shape[:-1], 1])
    unseen = normalizer.eq(-math.inf)
    zero = x.constant(0, scores.dtype)
    # Divided again: large scores leave the exponents' sum not quite one.
    shares, _ = _shares(x, x.select(unseen, zero, x.exp(scores - normalizer)))
    of_shares = _product(x, grad, _transposed(x, values))
    # Equal to the sum of grad * out, but for out's rounding, which the subtraction would magnify.
    along = x.sum(shares * of_shares, [-1], keepdim=True)
    of_scores = shares * (of_shares - along)
    narrow = of_scores.to(query.dtype)
    of_query = _product(x, narrow, keys) * factor
    of_key = _product(x, _transposed(x, narrow), query) * factor
    of_value = _product(x, _transposed(x, shares.to(value.dtype)), grad)
    return (
        of_query.to(query.dtype),
        _per_key_head(x, of_key, key).to(key.dtype),
        _per_key_head(x, of_value, value).to(value.dtype),
        of_scores,
    )


def _refuse_dropout(probability: float) -> None:
    if probability:
        raise LoweringError(
            f"fused attention has no dropout, and dropout_p={probability} asks for it"
        )


@lower(aten._scaled_dot_product_flash_attention_for_cpu, static=("dropout_p",))
def flash_attention(
    x: Builder,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None,
    scale: Operand | None,
) -> tuple[Value, Value]:
    _refuse_dropout(dropout_p)
    return _attend(x, query, key, value, attn_mask, is_causal, scale)


@lower(aten._scaled_dot_product_flash_attention_for_cpu_backward, static=("dropout_p",))
def flash_attention_backward(
    x: Builder,
    grad: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None,
    scale: Operand | None,
) -> tuple[Value, Value, Value]:
    _refuse_dropout(dropout_p)
    results = _attend_backward(x, grad, query, key, value, attn_mask, logsumexp, is_causal, scale)
    return results[:3]


@lower(aten._scaled_dot_product_fused_attention_overrideable, static=("dropout_p",))
def fused_attention(
    x: Builder,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: Operand | None,
) -> tuple[Value | int | None, ...]:
    _refuse_dropout(dropout_p)
    output, logsumexp = _attend(x, query, key, value, bias, is_causal, scale)
    batched = x.reshape(logsumexp.to(torch.float32), [-1, *query.shape[-3:-1]])
    state = x.constant(0, torch.int64)  # of the dropout there is not
    lengths = query.shape[-2], key.shape[-2]
    return output, batched, None, None, *lengths, state, state, None


@lower(aten._scaled_dot_product_fused_attention_overrideable_backward, static=("dropout_p",))
def fused_attention_backward(
    x: Builder,
    grad: Value,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    grad_input_mask: list[bool],
    out: Value,
    logsumexp: Value,
    cum_seq_q: Value | None,
    cum_seq_k: Value | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Value | None,
    philox_offset: Value | None,
    *,
    scale: Operand | None,
) -> tuple[Value | None, ...]:
    _refuse_dropout(dropout_p)
    *results, of_scores = _attend_backward(
        x, grad, query, key, value, bias, logsumexp, is_causal, scale
    )
    of_bias = None
    if grad_input_mask[3] and bias is not None:
        of_bias = _sum_to(x, of_scores, bias.shape).to(bias.dtype)
    masked = zip(results, grad_input_mask, strict=False)
    return *(r if wanted else None for r, wanted in masked), of_bias


def _sum_to(x: Builder, a: Value, shape: tuple[int, ...]) -> Value:
    """The sum over the dimensions in which an array of `shape` was broadcast."""
    new = a.rank - len(shape)
    repeated = [d for d in range(a.rank) if d < new or (shape[d - new] == 1 != a.shape[d])]
    return x.reshape(x.sum(a, repeated, keepdim=True) if repeated else a, shape)
