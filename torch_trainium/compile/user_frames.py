"""Calls from a frame that stands for the user's line: what runs later is still that line's work.

Warnings, errors, logs and the timeline look for the innermost frame of the user. While a compiled
graph runs, that is the line that called it, and not the one that an operator comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

Caller = Callable[..., Any]


def call_here(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function from whatever line called this."""
    return function(*args, **kwargs)


@cache
def caller_at(file: str, line: int, function: str) -> Caller:
    """A `call_here` whose frame is at this line."""
    body = call_here.__code__
    lines = [number for _, _, number in body.co_lines() if number is not None]
    code = body.replace(
        co_filename=file,
        co_name=function,
        co_qualname=function,
        co_firstlineno=body.co_firstlineno + line - max(lines),
    )
    return FunctionType(code, {"__name__": function})
