"""Positions of one among equal elements, where PyTorch leaves open which one is named."""

from __future__ import annotations

from typing import Any

from torch_trainium.lowering import dispatch

NAMING_ANY = ("sort", "topk", "kthvalue", "median", "nanmedian", "mode")


def settle(func: Any, args: Any, kwargs: Any, actual: Any, expected: Any) -> None:
    """Make positions the CPU's, if those given are distinct and name the values given with them.

    Args:
        func: the overload that was called with `args` and `kwargs`.
        args: its positional arguments.
        kwargs: its arguments by keyword.
        actual: the device's results; positions, the second of them, are overwritten.
        expected: the CPU's results.

    """
    arguments = dispatch.bind(func, args, kwargs)
    dim = arguments.get("dim")
    is_open = func._schema.name.removeprefix("aten::") in NAMING_ANY and not arguments.get("stable")
    if not is_open or not isinstance(dim, int) or actual[1].shape != expected[1].shape:
        return
    a, values, places = (t.cpu() for t in (arguments["self"], *actual))
    if not places.numel() or not a.dim():
        return
    if places.dim() < a.dim():
        values, places = values.unsqueeze(dim), places.unsqueeze(dim)
    if places.min() < 0 or places.max() >= a.shape[dim]:
        return
    named = a.gather(dim, places)
    is_named = named.eq(values) | (named.ne(named) & values.ne(values))
    if is_named.all() and places.sort(dim).values.diff(dim=dim).ne(0).all():
        actual[1].copy_(expected[1])
