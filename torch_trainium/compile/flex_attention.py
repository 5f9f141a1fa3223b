"""`flex_attention` in a program: PyTorch's own dense formula with the user's functions inlined."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.flex_attention import math_attention, sdpa_dense_backward
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from torch_trainium.lowering.values import Value

DEVICE_TYPE = "neuron"

if TYPE_CHECKING:
    from torch_trainium.compile.interpret import Interpreter


def forward(run: Interpreter, *arguments: Any) -> list[Any]:
    """The result, the logarithm of the sums to base 2, and the maxima."""
    return _traced(run, math_attention, arguments)


def backward(run: Interpreter, *arguments: Any) -> list[Any]:
    """Gradients of query, key and value, and a list of those of the captured tensors."""
    *of_inputs, of_captured = _traced(run, sdpa_dense_backward, arguments)
    return [*of_inputs, list(of_captured)]


def _traced(run: Interpreter, function: Callable[..., Any], arguments: Any) -> list[Any]:
    """A function of tensors as the operators that it calls; other arguments are constants."""
    leaves, spec = tree_flatten(arguments)
    values = [leaf for leaf in leaves if isinstance(leaf, Value)]

    def of_tensors(*tensors: torch.Tensor) -> Any:
        left = iter(tensors)
        filled = [next(left) if isinstance(leaf, Value) else leaf for leaf in leaves]
        return function(*tree_unflatten(filled, spec))

    with FakeTensorMode(), torch.no_grad():
        fakes = [torch.empty(v.shape, dtype=v.dtype, device=DEVICE_TYPE) for v in values]
        for fake in fakes:
            # Captured tensors have a gradient only where they want one.
            fake.requires_grad_(fake.is_floating_point())
        module = make_fx(of_tensors)(*fakes)
    return run.body(module, values)
