"""Starting the runtime, which the first use of a device does by itself."""

from torch_trainium import _C


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
    """Nothing, as in Amazon's module: no operator leaves work behind that could be delayed."""
