"""Device memory: statistics, limits and the cache.

Memory that tensors give up stays cached in *segments* for the next tensors. *Allocated* bytes are
held by tensors, *active* ones also wait for another stream, *reserved* ones are all that the
process took from the device.
"""

import os
import warnings
from collections import OrderedDict
from typing import Any

import torch

from torch_trainium import _C
from torch_trainium.neuron import startup
from torch_trainium.neuron._utils import Device, _get_device_index
from torch_trainium.neuron.memory_pools import MemPool, use_mem_pool
from torch_trainium.neuron.memory_snapshot import (
    _allocation_traceback,
    _dump_snapshot,
    _record_memory_history,
    _save_memory_usage,
    _save_segment_usage,
    _snapshot,
    memory_snapshot,
)
from torch_trainium.neuron.memory_summary import summary_table

__all__ = [
    "MemPool",
    "_allocation_traceback",
    "_dump_snapshot",
    "_record_memory_history",
    "_save_memory_usage",
    "_save_segment_usage",
    "_snapshot",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "empty_host_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


def memory_stats(device: Device = None) -> "OrderedDict[str, Any]":
    """The allocator's statistics of `device`, with the keys of `torch.cuda.memory_stats`.

    Keys are `<metric>.<pool>.<value>`. Metrics: `allocation`, `segment`, `active` and
    `inactive_split` count; `allocated_bytes`, `reserved_bytes`, `active_bytes`,
    `inactive_split_bytes` and `requested_bytes` sum. Pools: `all`, `small_pool` (blocks up to
    1 MiB), `large_pool`. Values: `current`, `peak`, and the totals `allocated` and `freed`.
    `oversize_allocations` and `oversize_segments` have no pool; `num_alloc_retries`, `num_ooms`,
    `num_sync_all_streams`, `num_device_alloc`, `num_device_free`, `num_oom_rejections` (always 0)
    and `max_split_size` are single numbers. Empty until the runtime has started.
    """
    return OrderedDict(sorted(_flatten(memory_stats_as_nested_dict(device))))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """`memory_stats` before its keys are joined; pools of the user are keyed by their id."""
    if not startup.is_initialized():
        return {}
    return _C.memory.memory_stats(_get_device_index(device, optional=True))


def _flatten(stats: dict[Any, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat = []
    for key, value in stats.items():
        name = prefix + ("_".join(map(str, key)) if isinstance(key, tuple) else key)
        flat += _flatten(value, name + ".") if isinstance(value, dict) else [(name, value)]
    return flat


def memory_allocated(device: Device = None) -> int:
    """Bytes that tensors hold on `device`, rounded up to the allocator's blocks."""
    return int(memory_stats(device).get("allocated_bytes.all.current", 0))


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that tensors held on `device` since the last `reset_peak_memory_stats`."""
    return int(memory_stats(device).get("allocated_bytes.all.peak", 0))


def memory_reserved(device: Device = None) -> int:
    """Bytes that this process took from `device`, for tensors and as cache."""
    return int(memory_stats(device).get("reserved_bytes.all.current", 0))


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes that this process took since the last `reset_peak_memory_stats`."""
    return int(memory_stats(device).get("reserved_bytes.all.peak", 0))


def memory_cached(device: Device = None) -> int:
    """Old name of `memory_reserved`."""
    _warn_renamed("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Device = None) -> int:
    """Old name of `max_memory_reserved`."""
    _warn_renamed("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The statistics of `device` as a table; without the rows of single pools if `abbreviated`."""
    startup.init()
    index = _get_device_index(device, optional=True)
    return summary_table(memory_stats(index), index, abbreviated)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Let the peaks of `device` start again from the current values."""
    _C.memory.reset_peak_memory_stats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Let the totals (`allocated`, `freed`, `num_*`) of `device` start again from zero."""
    _C.memory.reset_accumulated_memory_stats(_get_device_index(device, optional=True))


def reset_max_memory_allocated(device: Device = None) -> None:
    """Old name of `reset_peak_memory_stats`, which resets all peaks."""
    _warn_renamed("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Device = None) -> None:
    """Old name of `reset_peak_memory_stats`, which resets all peaks."""
    _warn_renamed("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def _warn_renamed(old: str, new: str) -> None:
    warnings.warn(f"torch.neuron.{old} is torch.neuron.{new} now", FutureWarning, stacklevel=3)


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) bytes of the HBM stack behind `device`, whoever uses it."""
    return _C.memory.mem_get_info(_get_device_index(device, optional=True))


def empty_cache() -> None:
    """Give the cached segments of every device back to it.

    Tensors keep theirs, and live memory pools keep their cache.
    """
    _C.memory.empty_cache(None)


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Let this process reserve at most `fraction` of the memory of `device`.

    What exceeds it raises torch.OutOfMemoryError, after the cache was released.

    Raises:
        TypeError: `fraction` is no float.
        ValueError: `fraction` is not in [0, 1].

    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    _C.memory.set_memory_fraction(fraction, _get_device_index(device, optional=True))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The share of the memory of `device` that this process may reserve."""
    return _C.memory.memory_fraction(_get_device_index(device, optional=True))


def caching_allocator_alloc(
    size: int, device: Device = None, stream: torch.Stream | int | None = None
) -> int:
    """Allocate `size` bytes and return their device address, for other libraries.

    Args:
        size: bytes.
        device: where; the current device when None.
        stream: the stream, or its id, that will use the memory; the current one when None.

    """
    index = _get_device_index(device, optional=True)
    if stream is None:
        stream = torch.accelerator.current_stream(torch.device("neuron", index))
    if isinstance(stream, torch.Stream):
        stream = stream.stream_id
    if not isinstance(stream, int):
        raise TypeError(f"stream must be a torch.Stream or a stream id, got {type(stream)}")
    return _C.memory.raw_allocate(size, index, stream)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free what `caching_allocator_alloc` returned.

    Raises:
        ValueError: it did not return this address, or the memory is freed already.

    """
    _C.memory.raw_delete(mem_ptr)


def get_allocator_backend() -> str:
    """ "native": the caching allocator of this package is the only one."""
    return "native"


def list_gpu_processes(device: Device = None) -> str:
    """The processes that use `device`: this one, as an emulated device has no others."""
    index = _get_device_index(device, optional=True)
    mebibytes = memory_reserved(index) / 2**20
    return f"neuron:{index}\nprocess {os.getpid():>10d} uses {mebibytes:>12.3f} MB neuron memory"


def host_memory_stats() -> "OrderedDict[str, Any]":
    """Statistics of pinned host memory, with the keys of `torch.cuda.host_memory_stats`.

    `locked_bytes` in addition: how much of it the operating system holds in RAM. Beyond the
    process's limit (`ulimit -l`) memory is not locked, but treated as pinned all the same.
    """
    return OrderedDict(sorted(_flatten(host_memory_stats_as_nested_dict())))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """`host_memory_stats` before its keys are joined."""
    return _C.memory.host_memory_stats() if startup.is_initialized() else {}


def reset_peak_host_memory_stats() -> None:
    """Let the peaks of pinned host memory start again from the current values."""
    _C.memory.reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Let the totals of pinned host memory start again from zero."""
    _C.memory.reset_accumulated_host_memory_stats()


def empty_host_cache() -> None:
    """Give cached pinned host memory back to the operating system."""
    _C.memory.empty_host_cache()
