"""A device "stock" that runs everything through PyTorch's own CPU fallback."""

from pathlib import Path
from types import ModuleType

import torch
from torch.utils.cpp_extension import load

SOURCE = Path(__file__).parent / "backend.cpp"


def register() -> None:
    """Compile the backend, unless that is done, and make the device available."""
    load("stock_fallback", [str(SOURCE)], extra_cflags=["-O2", "-g0", "-std=c++20"])
    torch.utils.rename_privateuse1_backend("stock")
    module = ModuleType("torch.stock")
    for name, value in {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "_is_in_bad_fork": False,
        "get_rng_state": None,
        "set_rng_state": None,
        "manual_seed_all": None,
    }.items():
        setattr(module, name, lambda *_args, _value=value: _value)
    torch._register_device_module("stock", module)
