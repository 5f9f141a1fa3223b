"""Whose code called: the line of the user's Python."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

_OWN_CODE = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))


def user_line() -> str:
    """The innermost line of Python that is neither PyTorch's nor this package's."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN_CODE):
            return f"{code.co_filename}:{frame.f_lineno} ({code.co_name})"
        frame = frame.f_back  # type: ignore[assignment]
    return "a thread without Python, such as autograd's"
