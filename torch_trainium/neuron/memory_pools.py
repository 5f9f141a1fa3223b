"""Memory pools: allocations kept apart from all others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch_trainium import _C
from torch_trainium.neuron._utils import Device, _get_device_index


class MemPool(_C.memory.MemPool):
    """A pool of memory of the current device that `use_mem_pool` allocates from.

    Its segments hold nothing else, and return to the device when the pool and the tensors in it
    are gone.

    Args:
        allocator: must be None; there is one source of device memory.
        use_on_oom: lend cached memory of the pool to others before they run out of memory.
        no_split: give every allocation a segment, or cached block, of its own.

    Raises:
        NotImplementedError: `allocator` is given.

    """

    def __init__(
        self, allocator: None = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        if allocator is not None:
            raise NotImplementedError(
                "A neuron MemPool takes no allocator: device memory has one source. "
                "Leave it out to get a pool of it."
            )
        super().__init__(_C.current_device(), use_on_oom, no_split)

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """The segments of this pool; see `torch.neuron.memory_snapshot`."""
        segments: list[dict[str, Any]] = _C.memory.snapshot(self.id, include_traces)["segments"]
        return segments


@contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Within this context, the calling thread allocates from `pool`.

    Other threads do not, and neither does autograd's own thread in `backward`.

    Args:
        pool: the pool.
        device: whose allocations; the current device when None.

    """
    index = _get_device_index(device, optional=True)
    _C.memory.begin_allocating_to_pool(pool.id, index)
    try:
        yield
    finally:
        _C.memory.end_allocating_to_pool(pool.id, index)
