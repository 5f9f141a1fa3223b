"""What PyTorch says of a call before it is computed: the layouts of its results, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_leaves

from torch_trainium.engines.engine import Number
from torch_trainium.lowering import dispatch, registry, shape_functions
from torch_trainium.lowering.call import Call, Tensor, tensors_of
from torch_trainium.lowering.values import Scalar
from torch_trainium.lowering.windows import Window

# Their shape functions lay results out as CUDA does, unless the tensors are said to be the CPU's.
_LAYOUTS_BY_DEVICE = (
    *("aten::_fft_c2c", "aten::_fft_c2r", "aten::_fft_r2c"),
    *("aten::_linalg_svd", "aten::linalg_eig"),
)
# Their shape functions describe what CUDA notes for the backward pass, not the CPU's.
_SHAPES_OF_ANOTHER_DEVICE = ("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
# What they give is written one by one into a tensor that has room for it, whatever its shape.
_FILL_ANY_SHAPE = ("aten::arange", "aten::linspace", "aten::logspace", "aten::range")


def results(
    overload: Any, arguments: dict[str, Any], numbers: Sequence[Number]
) -> list[Window | None] | None:
    """The results of a functional overload; None where PyTorch has no shape function for it."""
    try:
        returned = _call(overload, arguments, numbers, {}, {})
    except NotImplementedError:
        return None
    return [
        None if r is None else _window(r)
        for r in tree_leaves(returned)
        if r is None or isinstance(r, torch.Tensor)
    ]


def written(call: Call, layouts: Sequence[Window | None] | None) -> list[Window | None]:
    """What becomes of the tensors that a call writes; None where nothing says it.

    Whatever an operator refuses to write to, by its dtype or its shape, its own shape function
    refuses.

    Args:
        call: the call.
        layouts: what its functional form would make, for each tensor that is written.

    """
    schema = call.overload._schema
    targets = tensors_of(dispatch.written_arguments(call.overload), call.arguments)
    resized: dict[int, Window] = {}
    if layouts is not None and any(a.is_out for a in schema.arguments):
        for target, layout in zip(targets, layouts, strict=True):
            window = target.window
            if layout is None or layout.shape == window.shape:
                continue
            if layout.size == window.size and schema.name in _FILL_ANY_SHAPE:
                return [window]
            # As if it were empty, of which there is no warning: whoever resizes it warns.
            resized[target.position] = Window(window.dtype, (0,), (1,))
    tensors: dict[int, torch.Tensor] = {}
    try:
        _call(call.overload, call.arguments, call.numbers, tensors, resized)
    except NotImplementedError:
        return [None] * len(targets)
    return [_window(tensors[target.position]) for target in targets]


def _call(
    overload: Any,
    arguments: dict[str, Any],
    numbers: Sequence[Number],
    tensors: dict[int, torch.Tensor],
    windows: dict[int, Window],
) -> Any:
    """What the overload returns for tensors without data.

    Args:
        overload: the operator.
        arguments: its arguments, as a call has them.
        numbers: what the numbers among them are.
        tensors: filled with the tensors it was called with, by position.
        windows: the layouts of those that have others than the arguments say, by position.

    """
    schema = overload._schema
    by_device = schema.name in _LAYOUTS_BY_DEVICE
    device = "cpu" if by_device else "meta"

    def as_meta(argument: Any) -> Any:
        if isinstance(argument, Tensor):
            if argument.position not in tensors:
                window = windows.get(argument.position, argument.window)
                tensors[argument.position] = torch.empty_strided(
                    window.shape, window.strides, dtype=window.dtype, device=device
                )
            return tensors[argument.position]
        if isinstance(argument, Scalar):
            number = numbers[argument.index]
            return number if argument.dtype is None else torch.tensor(number, dtype=argument.dtype)
        if isinstance(argument, (list, tuple)):
            return [as_meta(item) for item in argument]
        return torch.device(device) if isinstance(argument, torch.device) else argument

    if schema.name in _SHAPES_OF_ANOTHER_DEVICE:
        raise NotImplementedError(schema.name)
    with torch.no_grad(), FakeTensorMode() if by_device else nullcontext():
        positional = [as_meta(arguments[a.name]) for a in schema.arguments if not a.kwarg_only]
        named = {a.name: as_meta(arguments[a.name]) for a in schema.arguments if a.kwarg_only}
        shapes = shape_functions.TABLE.get(registry.qualified_name(overload), overload)
        return shapes(*positional, **named)


def _window(tensor: torch.Tensor) -> Window:
    return Window(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
