"""`flex_attention` under autocast, which PyTorch has for CUDA and CPU alone."""

from __future__ import annotations

from typing import Any

import torch

DEVICE_TYPE = "neuron"


def register() -> None:
    """Let queries, keys and values have the dtype of autocast, as on other devices."""
    from torch._higher_order_ops.flex_attention import flex_attention

    key: Any = torch._C.DispatchKey.__members__["AutocastPrivateUse1"]

    def in_autocast_dtype(*arguments: Any) -> Any:
        dtype = torch.get_autocast_dtype(DEVICE_TYPE)
        cast: list[Any] = [_cast(tensor, dtype) for tensor in arguments[:3]]
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return flex_attention(*cast, *arguments[3:])

    flex_attention.py_impl(key)(in_autocast_dtype)


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What autocast does with an operand: float64 stays."""
    casts = tensor.is_floating_point() and tensor.dtype is not torch.float64
    return tensor.to(dtype) if casts else tensor
