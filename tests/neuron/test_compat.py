"""The vendor's Python names."""

import torch

from torch_trainium.compat import torch_neuronx

# Names of torch.neuron in the vendor's releases; the compile metrics come with torch.compile.
VENDOR_MODULE = [
    "is_available",
    "is_initialized",
    "init",
    "device_count",
    "current_device",
    "set_device",
    "device",
    "get_device_name",
    "get_device_properties",
    "is_bf16_supported",
    "get_amp_supported_dtype",
    "synchronize",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "initial_seed",
    "get_rng_state",
    "set_rng_state",
    "get_rng_state_all",
    "set_rng_state_all",
    "Stream",
    "stream",
    "current_stream",
    "default_stream",
    "set_stream",
    "wait_stream",
    "wait_event",
    "record_event",
    "query",
    "Event",
    "memory",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
    "empty_cache",
    "_sleep",
    "_is_in_bad_fork",
]


def test_torch_neuron_has_the_vendors_names() -> None:
    assert [name for name in VENDOR_MODULE if not hasattr(torch.neuron, name)] == []


def test_every_compat_name_is_the_same_object_here() -> None:
    assert torch_neuronx.Stream is torch.neuron.Stream
    assert all(getattr(torch_neuronx, name).__doc__ for name in torch_neuronx.__all__)


def test_operator_tracking_under_the_vendors_names() -> None:
    torch_neuronx.clear_op_tracking()
    torch.ones(2, device="neuron").exp()
    assert torch_neuronx.get_executed_ops()["aten::exp"] == 1
    assert torch_neuronx.is_neuron_runtime_initialized()


def test_sleep_is_accepted() -> None:
    assert torch.neuron._sleep(1000) is None
