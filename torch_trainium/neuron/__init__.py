"""`torch.neuron`: what `torch.cuda` offers, for neuron devices.

- `devices`: which there are, which is current, what they are
- `instance`: choosing the emulated machine
- `startup`: starting the runtime; forked processes
- `streams`: streams, events and the current stream
- `memory`: allocator statistics, snapshots, pools, limits
- `random`: seeds and generator states
- `amp`: mixed precision
- `observe`: what the device executed
- `cpu_fallbacks`: what runs on the CPU instead, and whether it may
- `virtual_time`: how long that takes on the emulated chip
- `reports`: the same as an HTML page
- `stream_sanitizer`: whether the streams wait for each other
- `profiler`: `torch.profiler` with this device filled in
- `comm`: copies and sums over the devices of a process
- `legacy_types`: `torch.neuron.FloatTensor` and its kin
- `sharing`: what happens to a tensor on its way to another process
"""

import torch

from torch_trainium.config import current as config
from torch_trainium.errors import FallbackError, FallbackWarning
from torch_trainium.neuron import _utils as _utils
from torch_trainium.neuron import (
    amp,
    comm,
    legacy_types,
    memory,
    profiler,
    random,
    sharing,
    streams,
)
from torch_trainium.neuron.cpu_fallbacks import (
    FallbackPolicy,
    FallbackTotal,
    fallback_calls,
    fallback_is,
    fallbacks,
    reset_fallbacks,
    set_fallback,
)
from torch_trainium.neuron.devices import (
    DeviceProperties,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_memory_used,
    device_of,
    get_amp_supported_dtype,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    is_bf16_supported,
    is_tf32_supported,
    set_device,
    synchronize,
)
from torch_trainium.neuron.devices import (
    _exchange_device as _exchange_device,
)
from torch_trainium.neuron.devices import (
    _maybe_exchange_device as _maybe_exchange_device,
)
from torch_trainium.neuron.instance import set_instance
from torch_trainium.neuron.legacy_types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from torch_trainium.neuron.memory import (
    MemPool,
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    empty_host_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    list_gpu_processes,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from torch_trainium.neuron.memory import (
    _allocation_traceback as _allocation_traceback,
)
from torch_trainium.neuron.memory import (
    _dump_snapshot as _dump_snapshot,
)
from torch_trainium.neuron.memory import (
    _record_memory_history as _record_memory_history,
)
from torch_trainium.neuron.memory import (
    _save_memory_usage as _save_memory_usage,
)
from torch_trainium.neuron.memory import (
    _save_segment_usage as _save_segment_usage,
)
from torch_trainium.neuron.memory import (
    _snapshot as _snapshot,
)
from torch_trainium.neuron.observe import (
    copied_results,
    executed_op_shapes,
    executed_ops,
    record_op_shapes,
    reset_executed_ops,
    set_op_log,
)
from torch_trainium.neuron.random import (
    _get_generator as _get_generator,
)
from torch_trainium.neuron.random import (
    _get_rng_state_offset as _get_rng_state_offset,
)
from torch_trainium.neuron.random import (
    _set_rng_state_offset as _set_rng_state_offset,
)
from torch_trainium.neuron.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_trainium.neuron.reports import report
from torch_trainium.neuron.startup import (
    _is_in_bad_fork as _is_in_bad_fork,
)
from torch_trainium.neuron.startup import (
    _lazy_init as _lazy_init,
)
from torch_trainium.neuron.startup import (
    _sleep as _sleep,
)
from torch_trainium.neuron.startup import (
    init,
    is_initialized,
)
from torch_trainium.neuron.stream_sanitizer import sanitizer
from torch_trainium.neuron.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    query,
    record_event,
    set_stream,
    stream,
    wait_event,
    wait_stream,
)
from torch_trainium.neuron.streams import (
    _set_stream_by_id as _set_stream_by_id,
)
from torch_trainium.neuron.virtual_time import Timeline, timeline

AcceleratorError = torch.AcceleratorError
OutOfMemoryError = torch.OutOfMemoryError
has_half = True
# Activation checkpointing saves generator states only where this is true; they always exist.
_initialized = True

__all__ = [
    "AcceleratorError",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DeviceProperties",
    "DoubleTensor",
    "Event",
    "FallbackError",
    "FallbackPolicy",
    "FallbackTotal",
    "FallbackWarning",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "MemPool",
    "OutOfMemoryError",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "Timeline",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "comm",
    "config",
    "copied_results",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "empty_host_cache",
    "executed_op_shapes",
    "executed_ops",
    "fallback_calls",
    "fallback_is",
    "fallbacks",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "has_half",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "legacy_types",
    "list_gpu_processes",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "profiler",
    "query",
    "random",
    "record_event",
    "record_op_shapes",
    "report",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_executed_ops",
    "reset_fallbacks",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "sanitizer",
    "seed",
    "seed_all",
    "set_device",
    "set_fallback",
    "set_instance",
    "set_op_log",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "sharing",
    "stream",
    "streams",
    "synchronize",
    "timeline",
    "use_mem_pool",
    "wait_event",
    "wait_stream",
]
