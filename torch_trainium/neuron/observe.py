"""What the device executed: counts, shapes, and a log with the user's lines."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch

from torch_trainium import _C, config

# Code below these is nobody's line: a line is the user's.
INTERNAL_FOLDERS = tuple(
    f"{Path(module.__file__).parent}/" for module in (torch, config) if module.__file__
)


def executed_ops() -> dict[str, int]:
    """How often each operator ran on the devices since the start or the last reset.

    Keys are operator names with overload, such as "aten::add.Tensor"; operators that PyTorch
    composes from others are counted as those.
    """
    return dict(_C.executed_ops())


def reset_executed_ops() -> None:
    """Start the counts of `executed_ops` and `executed_op_shapes` again."""
    _C.reset_executed_ops()


def copied_results() -> int:
    """How many results were copied into device memory after the operator had made them elsewhere.

    Operators write into device memory directly, except where PyTorch leaves the allocation to
    the kernel and the kernel allocates in a way of its own.
    """
    return int(_C.copied_results())


@contextmanager
def record_op_shapes() -> Iterator[None]:
    """Inside the `with` block, remember the input shapes of every operator executed."""
    _C.record_op_shapes(True)
    try:
        yield
    finally:
        _C.record_op_shapes(False)


def executed_op_shapes() -> dict[str, dict[str, int]]:
    """How often each operator ran on which operands, inside `record_op_shapes`.

    Operands read like "Float[2, 3], Long[2]".
    """
    return {name: dict(shapes) for name, shapes in _C.executed_op_shapes().items()}


def set_op_log(enabled: bool) -> None:
    """Print every operator as it is executed, with the line of Python that asked for it.

    TORCH_TRAINIUM_LOG_OPS=1 does the same from the start of the process.
    """
    _C.set_op_log(_log_op if enabled else None)


def _start_op_log_if_asked() -> None:
    if config.current()["TORCH_TRAINIUM_LOG_OPS"]:
        set_op_log(True)


def _log_op(name: str, operands: str) -> None:
    print(f"[torch_trainium] {name}({operands}) at {caller_of_op()}", file=sys.stderr)


def caller_of_op() -> str:
    """The innermost "file:line" that is neither PyTorch's nor ours.

    A backward operator has the line that called `backward`; where the program lets autograd use
    threads of its own, these have no Python frame: "autograd".
    """
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "autograd"


def user_frame() -> FrameType | None:
    """The innermost frame that is neither PyTorch's nor ours; None on a thread without any."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def is_internal(file: str) -> bool:
    """Whether a source file is PyTorch's or ours."""
    return file.startswith(INTERNAL_FOLDERS)
