"""Automatic mixed precision: `torch.amp` with the device filled in."""

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast_mode.autocast):
    """`torch.autocast("neuron", ...)`: context manager and decorator.

    Args:
        enabled: whether the region casts at all.
        dtype: what eligible operators run in: float16 (PyTorch's default for an
            accelerator), bfloat16 or float32.
        cache_enabled: whether casts of weights are kept for the region.

    """

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype | None = None,
        cache_enabled: bool | None = None,
    ) -> None:
        super().__init__("neuron", dtype, enabled, cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler("neuron", ...)`; arguments as there."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            "neuron", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: torch.dtype | None = None
) -> Any:
    """`torch.amp.custom_fwd` for this device: how autocast treats a custom `forward`."""
    return torch.amp.custom_fwd(fwd, device_type="neuron", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """`torch.amp.custom_bwd` for this device: backward under the state of its forward."""
    return torch.amp.custom_bwd(bwd, device_type="neuron")
