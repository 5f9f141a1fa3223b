"""`torch.neuron`: what `torch.cuda` offers, for neuron devices.

- `devices`: which there are, which is current, what they are
- `startup`: starting the runtime; forked processes
- `streams`: streams, events and the current stream
- `memory`: allocator statistics, snapshots, pools, limits
- `random`: seeds and generator states
- `amp`: mixed precision
- `observe`: what the device executed
- `profiler`: `torch.profiler` with this device filled in
- `comm`: copies and sums over the devices of a process
- `legacy_types`: `torch.neuron.FloatTensor` and its kin
- `sharing`: what happens to a tensor on its way to another process
"""

import torch

from torch_trainium.config import current as config
from torch_trainium.neuron import _utils as _utils
from torch_trainium.neuron import amp, comm, legacy_types, profiler, sharing
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
from torch_trainium.neuron.observe import (
    executed_op_shapes,
    executed_ops,
    record_op_shapes,
    reset_executed_ops,
    set_op_log,
)
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

AcceleratorError = torch.AcceleratorError
OutOfMemoryError = torch.OutOfMemoryError
has_half = True

__all__ = [
    "AcceleratorError",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DeviceProperties",
    "DoubleTensor",
    "Event",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "OutOfMemoryError",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "comm",
    "config",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "executed_op_shapes",
    "executed_ops",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "has_half",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "legacy_types",
    "profiler",
    "query",
    "record_event",
    "record_op_shapes",
    "reset_executed_ops",
    "set_device",
    "set_op_log",
    "set_stream",
    "sharing",
    "stream",
    "synchronize",
    "wait_event",
    "wait_stream",
]
