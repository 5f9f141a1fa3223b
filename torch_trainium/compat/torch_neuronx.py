"""Amazon's `torch_neuronx` names, for programs written for TorchNeuron.

`from torch_trainium.compat import torch_neuronx` in place of `import torch_neuronx`. Only
names that do here what they do there are offered; anything else is an AttributeError.
"""

from torch_trainium.neuron import (
    Event,
    Stream,
    StreamContext,
    current_device,
    current_stream,
    default_stream,
    device,
    device_count,
    empty_cache,
    get_device_properties,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_device,
    set_stream,
    stream,
    synchronize,
)
from torch_trainium.neuron import executed_ops as get_executed_ops
from torch_trainium.neuron import is_initialized as is_neuron_runtime_initialized
from torch_trainium.neuron import reset_executed_ops as clear_op_tracking

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "clear_op_tracking",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_properties",
    "get_executed_ops",
    "is_neuron_runtime_initialized",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]
