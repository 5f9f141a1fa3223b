"""The device as Dynamo asks for it."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import (
    DeviceInterface,
    caching_worker_current_devices,
    register_interface_for_device,
)

from torch_trainium import neuron

DEVICE_TYPE = "neuron"


class NeuronInterface(DeviceInterface):
    """Devices, streams and events of `torch.neuron`."""

    device = neuron.device
    Event = neuron.Event
    Stream = neuron.Stream

    class Worker:
        """Devices in processes that compile: named, never touched."""

        @staticmethod
        def set_device(device: int) -> None:
            """Name the device that is current there."""
            caching_worker_current_devices[DEVICE_TYPE] = device

        @staticmethod
        def current_device() -> int:
            """The device that is current there."""
            known = caching_worker_current_devices.get(DEVICE_TYPE)
            return neuron.current_device() if known is None else known

        @staticmethod
        def get_device_properties(device: torch.types.Device = None) -> Any:
            """What a device is."""
            return neuron.get_device_properties(device)

    current_device = staticmethod(neuron.current_device)
    set_device = staticmethod(neuron.set_device)
    device_count = staticmethod(neuron.device_count)
    exchange_device = staticmethod(neuron._exchange_device)  # type: ignore[assignment]
    maybe_exchange_device = staticmethod(neuron._maybe_exchange_device)  # type: ignore[assignment]
    stream = staticmethod(neuron.stream)
    current_stream = staticmethod(neuron.current_stream)
    set_stream = staticmethod(neuron.set_stream)
    _set_stream_by_id = staticmethod(neuron._set_stream_by_id)
    synchronize = staticmethod(neuron.synchronize)
    is_available = staticmethod(neuron.is_available)
    is_bf16_supported = staticmethod(neuron.is_bf16_supported)
    memory_allocated = staticmethod(neuron.memory_allocated)
    get_compute_capability = staticmethod(neuron.get_device_capability)

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """The id of the current stream of a device."""
        return neuron.current_stream(device_idx).stream_id


def register() -> None:
    """Let Dynamo ask this interface about "neuron" and each of its devices."""
    register_interface_for_device(DEVICE_TYPE, NeuronInterface)
    for index in range(neuron.device_count()):
        register_interface_for_device(f"{DEVICE_TYPE}:{index}", NeuronInterface)
