"""Device arguments: what `device=` may be in every function of `torch.neuron`."""

from typing import Any

import torch

from torch_trainium import _C

# A device, its index, its name, or None for the current device.
Device = torch.device | int | str | None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of `device`: an int, "neuron:1", a torch.device or a device context manager.

    A device without an index, and None, are the current device if `optional`. The CPU is -1
    if `allow_cpu`.

    Raises:
        ValueError: the device is no neuron device, or has no index and needs one.

    """
    if isinstance(device, int):
        return device
    if hasattr(device, "idx"):
        return int(device.idx)
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "neuron":
            allowed = "neuron or cpu" if allow_cpu else "neuron"
            raise ValueError(f"Expected a {allowed} device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise ValueError(f"Expected a neuron device or an index, but got: {device!r}")
    if not optional:
        raise ValueError(f"Expected a neuron device with an index, but got: {device}")
    return int(_C.current_device())
