"""Starting the runtime, which the first use of a device does by itself."""

import time
from pathlib import Path

import torch

from torch_trainium import _C

AUTOGRAD_THREAD_PREFIX = "pt_autograd_"
PICOSECONDS_PER_CYCLE = 1000


def init() -> None:
    """Start the runtime now. Programs need not: the first use of a device does it.

    Raises:
        RuntimeError: no device can be used, and why; or this process was forked from one that
            had used a device, and how to avoid that.

    """
    _C.init()


def is_initialized() -> bool:
    """Whether this process's runtime has started."""
    return bool(_C.is_initialized()) and not _is_in_bad_fork()


def _lazy_init() -> None:
    """Start the runtime unless it runs; PyTorch's factories call this."""
    _C.init()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had used a device."""
    return bool(_C.is_in_bad_fork())


def _sleep(cycles: int) -> None:
    """Keep the current stream's core busy for `cycles` of a nanosecond each, in virtual time."""
    if cycles < 0:
        raise ValueError(f"cycles={cycles} is not valid: it is a number of cycles, at least 0")
    _C.timeline.occupy(cycles * PICOSECONDS_PER_CYCLE)


def stop_autograd(timeout_seconds: float = 10.0) -> None:
    """End autograd's device threads and return when they are gone.

    PyTorch leaves them running when the interpreter finalizes, and a thread that wants the
    interpreter then aborts the process. Its `stop` returns while they still want it once more.
    Handlers that run later at exit may call `backward`, which no thread would execute any more:
    from here on it runs on the thread that calls it.
    """
    _C.stop_autograd_engine()
    torch.autograd.set_multithreading_enabled(False)
    deadline = time.monotonic() + timeout_seconds
    while _autograd_threads() and time.monotonic() < deadline:
        time.sleep(0.0005)


def _autograd_threads() -> int:
    count = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            count += (task / "comm").read_text().startswith(AUTOGRAD_THREAD_PREFIX)
        except OSError:
            # The thread ended between the listing and the reading.
            continue
    return count
