"""What PyTorch says of a call before it is computed: the layouts of its results, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_leaves

from torch_trainium.engines.engine import Number
from torch_trainium.lowering import dispatch, dtypes, refusals, registry, shape_functions
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
# In-place operators that give the tensor they write to the result's shape, as `out=` does.
_RESIZE_IN_PLACE = ("aten::addbmm_",)


def results(
    overload: Any, arguments: dict[str, Any], numbers: Sequence[Number]
) -> list[Window | None] | None:
    """The results of a functional overload; None where PyTorch has no shape function for it."""
    half = _half_width(overload, arguments)
    wide = {} if half is None else _widened(arguments)
    try:
        returned = _call(overload, arguments, numbers, {}, wide)
    except NotImplementedError:
        return None
    windows = [
        None if r is None else _window(r)
        for r in tree_leaves(returned)
        if r is None or isinstance(r, torch.Tensor)
    ]
    if half is None:
        return windows
    return [replace(w, dtype=half) if w and w.dtype is torch.float32 else w for w in windows]


def _half_width(overload: Any, arguments: dict[str, Any]) -> torch.dtype | None:
    """The dtype that all of several elementwise operands have, if it is a half-width float.

    PyTorch's references convert such operands, and lay results out as these and not as they were.
    """
    if torch.Tag.pointwise not in overload.tags or arguments.get("dtype") is not None:
        return None
    found = [tensor.window.dtype for tensor in tensors_of(arguments, arguments)]
    is_half = len(found) > 1 and len(set(found)) == 1 and found[0] in dtypes.COMPUTE_DTYPES
    return found[0] if is_half else None


def _widened(arguments: dict[str, Any]) -> dict[int, Window]:
    return {
        tensor.position: replace(tensor.window, dtype=torch.float32)
        for tensor in tensors_of(arguments, arguments)
    }


def written(call: Call, layouts: Sequence[Window | None]) -> list[Window | None]:
    """What becomes of the tensors that a call writes; None where nothing says it.

    Whatever an operator refuses to write to, by its dtype or its shape, its own shape function
    refuses.

    Args:
        call: the call.
        layouts: what its functional form makes for each of them, where that is known.

    """
    schema = call.overload._schema
    targets = tensors_of(dispatch.written_arguments(call.overload), call.arguments)
    if schema.name in _RESIZE_IN_PLACE:
        return list(layouts)
    pairs = list(zip(targets, layouts, strict=True))
    if schema.name in _FILL_ANY_SHAPE and all(w and t.window.size == w.size for t, w in pairs):
        return [target.window for target in targets]
    out = tensors_of([a.name for a in schema.arguments if a.is_out], call.arguments)
    name = registry.qualified_name(call.overload)
    tensors: dict[int, torch.Tensor] = {}
    before = {t.position: _asked_for(name, t.window, w) for t, w in pairs if t in out}
    try:
        _call(call.overload, call.arguments, call.numbers, tensors, before)
    except NotImplementedError:
        return [None] * len(targets)
    becoming: list[Window | None] = []
    for target, layout in pairs:
        after = _window(tensors[target.position])
        is_out = target in out
        if not is_out and after.shape != target.window.shape:
            raise RuntimeError(
                f"output with shape {list(target.window.shape)} doesn't match the broadcast "
                f"shape {list(after.shape)}"
            )
        becoming.append(layout if is_out and layout and layout.shape != after.shape else after)
    return becoming


def _asked_for(name: str, window: Window, layout: Window | None) -> Window:
    """The `out=` that a shape function is asked for; RuntimeError where its dtype is another."""
    if layout is None:
        return window
    if name in refusals.EXACT_OUT and layout.dtype is not window.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {layout.dtype}, but got {window.dtype} instead"
        )
    # As if it were empty, of which there is no warning: whoever resizes it warns.
    return window if layout.shape == window.shape else Window(window.dtype, (0,), (1,))


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
        name = registry.qualified_name(overload)
        refusals.expect_taken(overload, positional, named)
        return shape_functions.TABLE.get(name, overload)(*positional, **named)


def _window(tensor: torch.Tensor) -> Window:
    return Window(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
