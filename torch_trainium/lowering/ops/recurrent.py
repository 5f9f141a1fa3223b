"""Cells of recurrent networks.

Gates stand side by side in one dimension, in PyTorch's order; a workspace holds what the gradient
needs, as that of the CUDA kernels does.
"""

from __future__ import annotations

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


def _wide(a: Value) -> Value:
    return a.to(dtypes.compute_dtype(a.dtype))


def _gates(gates: Value, bias: Value | None) -> Value:
    return _wide(gates) if bias is None else _wide(gates) + _wide(bias)


def _chunks(x: Builder, a: Value, count: int) -> list[Value]:
    width = a.shape[1] // count
    return [x.slice_in_dim(a, 1, i * width, (i + 1) * width) for i in range(count)]


@lower(aten._thnn_fused_lstm_cell)
def lstm_cell(
    x: Builder,
    input_gates: Value,
    hidden_gates: Value,
    cx: Value,
    input_bias: Value | None,
    hidden_bias: Value | None,
) -> tuple[Value, Value, Value]:
    gates = _gates(input_gates, input_bias) + _gates(hidden_gates, hidden_bias)
    first, second, third, fourth = _chunks(x, gates, 4)
    into, forget, out = (x.logistic(gate) for gate in (first, second, fourth))
    cell = x.tanh(third)
    cy = forget * _wide(cx) + into * cell
    workspace = x.concatenate([into, forget, cell, out], 1)
    dtype = input_gates.dtype
    return (out * x.tanh(cy)).to(dtype), cy.to(dtype), workspace.to(dtype)


@lower(aten._thnn_fused_lstm_cell_backward_impl)
def lstm_cell_backward(
    x: Builder,
    grad_hy: Value | None,
    grad_cy: Value | None,
    cx: Value,
    cy: Value,
    workspace: Value,
    has_bias: bool,
) -> tuple[Value | None, ...]:
    if grad_hy is None and grad_cy is None:
        return None, None, None
    into, forget, cell, out = _chunks(x, _wide(workspace), 4)
    tanh_cy = x.tanh(_wide(cy))
    zero = x.constant(0, tanh_cy.dtype, tanh_cy.shape)
    of_hy = zero if grad_hy is None else _wide(grad_hy)
    of_cy = of_hy * out * (1 - tanh_cy * tanh_cy)
    if grad_cy is not None:
        of_cy = of_cy + _wide(grad_cy)
    of_gates = x.concatenate(
        [
            of_cy * cell * into * (1 - into),
            of_cy * _wide(cx) * forget * (1 - forget),
            of_cy * into * (1 - cell * cell),
            of_hy * tanh_cy * out * (1 - out),
        ],
        1,
    )
    dtype = workspace.dtype
    of_bias = x.sum(of_gates, [0]).to(dtype) if has_bias else None
    return of_gates.to(dtype), (of_cy * forget).to(dtype), of_bias


@lower(aten._thnn_fused_gru_cell)
def gru_cell(
    x: Builder,
    input_gates: Value,
    hidden_gates: Value,
    hx: Value,
    input_bias: Value | None,
    hidden_bias: Value | None,
) -> tuple[Value, Value]:
    from_input = _chunks(x, _gates(input_gates, input_bias), 3)
    from_hidden = _chunks(x, _gates(hidden_gates, hidden_bias), 3)
    state = _wide(hx)
    reset = x.logistic(from_input[0] + from_hidden[0])
    update = x.logistic(from_input[1] + from_hidden[1])
    candidate = x.tanh(from_input[2] + reset * from_hidden[2])
    hy = (state - candidate) * update + candidate
    workspace = x.concatenate([reset, update, candidate, state, from_hidden[2]], 1)
    return hy.to(hx.dtype), workspace.to(hx.dtype)


@lower(aten._thnn_fused_gru_cell_backward)
def gru_cell_backward(
    x: Builder, grad_hy: Value, workspace: Value, has_bias: bool
) -> tuple[Value | None, ...]:
    reset, update, candidate, state, hidden_candidate = _chunks(x, _wide(workspace), 5)
    grad = _wide(grad_hy)
    of_candidate = grad * (1 - update) * (1 - candidate * candidate)
    of_update = grad * (state - candidate) * update * (1 - update)
    of_reset = of_candidate * hidden_candidate * reset * (1 - reset)
    of_input = x.concatenate([of_reset, of_update, of_candidate], 1)
    of_hidden = x.concatenate([of_reset, of_update, of_candidate * reset], 1)
    results: list[Value | None] = [of_input, of_hidden, grad * update, None, None]
    if has_bias:
        results[3:] = [x.sum(of_input, [0]), x.sum(of_hidden, [0])]
    return tuple(r if r is None else r.to(grad_hy.dtype) for r in results)
