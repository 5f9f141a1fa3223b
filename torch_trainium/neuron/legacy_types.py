"""`torch.neuron.FloatTensor` and its kin: the types that `Tensor.type()` names.

They construct, convert (`x.type(torch.neuron.HalfTensor)`) and answer isinstance, for programs
that predate `dtype=` and `device=`. New code has no use for them.
"""

from typing import Any

import torch


class LegacyTensorType(type):
    """A dtype on this device, in the shape of a class."""

    dtype: torch.dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == "neuron"
            and instance.dtype is cls.dtype
        )

    def __call__(cls, *args: Any) -> torch.Tensor:
        """Uninitialized for sizes, `FloatTensor(2, 3)`; filled for data, `FloatTensor([2, 3])`."""
        if len(args) == 1 and not isinstance(args[0], int | torch.Size):
            return torch.as_tensor(args[0], dtype=cls.dtype, device="neuron")
        shape = args[0] if args and isinstance(args[0], torch.Size) else args or (0,)
        return torch.empty(shape, dtype=cls.dtype, device="neuron")


def _legacy_type(name: str, dtype: torch.dtype) -> LegacyTensorType:
    # Tensor.type(cls) reads the whole dotted name from the class.
    attributes = {"dtype": dtype, "__doc__": f"{dtype} on the current neuron device."}
    return LegacyTensorType(f"torch.neuron.{name}", (), attributes)


BFloat16Tensor = _legacy_type("BFloat16Tensor", torch.bfloat16)
BoolTensor = _legacy_type("BoolTensor", torch.bool)
ByteTensor = _legacy_type("ByteTensor", torch.uint8)
CharTensor = _legacy_type("CharTensor", torch.int8)
DoubleTensor = _legacy_type("DoubleTensor", torch.float64)
FloatTensor = _legacy_type("FloatTensor", torch.float32)
HalfTensor = _legacy_type("HalfTensor", torch.float16)
IntTensor = _legacy_type("IntTensor", torch.int32)
LongTensor = _legacy_type("LongTensor", torch.int64)
ShortTensor = _legacy_type("ShortTensor", torch.int16)
