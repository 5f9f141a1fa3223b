"""Higher-order operators as part of a program: functions of operators, not of tensors alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

from torch_trainium.compile import control_flow, flex_attention
from torch_trainium.lowering import dispatch
from torch_trainium.lowering.values import Value

if TYPE_CHECKING:
    from torch_trainium.compile.interpret import Interpreter


def draw_and_save(run: Interpreter, overload: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """A random operator, and the seed and offset it draws from, in words of 32 bits."""
    x = run.x
    (seed_low, seed_high, offset_low, offset_high), first = x.stream()
    low = offset_low + first if first else offset_low
    high = offset_high + (low < offset_low).to(torch.uint32)
    state = x.stack([seed_low, seed_high, low, high], dim=0)
    return [state, dispatch.lower_call(x, overload, args, kwargs)]


def draw_again(run: Interpreter, state: Value, overload: Any, *args: Any, **kwargs: Any) -> Any:
    """A random operator with the numbers that it drew from a saved state."""
    x = run.x
    words = [x.reshape(x.slice_in_dim(state, 0, i, i + 1), []) for i in range(state.size)]
    with x.drawing_from(words):
        return dispatch.lower_call(x, overload, args, kwargs)


# What a program has instead of the operator; it is called with the operator's arguments.
LOWERINGS: dict[Any, Callable[..., Any]] = {
    run_and_save_rng_state: draw_and_save,
    run_with_rng_state: draw_again,
    torch.ops.higher_order.cond: control_flow.cond,
    torch.ops.higher_order.invoke_subgraph: control_flow.invoke,
    torch.ops.higher_order.flex_attention: flex_attention.forward,
    torch.ops.higher_order.flex_attention_backward: flex_attention.backward,
    map_impl: control_flow.map_over,
    scan_op: control_flow.scan,
}
