"""`torch.profiler` with this device's activities filled in."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch.profiler

__all__ = ["profile"]


def profile(**kwargs: Any) -> "torch.profiler.profile":
    """A `torch.profiler.profile` of the CPU and the neuron devices; arguments as there."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    kwargs.setdefault("activities", [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1])
    return torch_profile(**kwargs)
