"""Which devices there are, what they are, and which one is current."""

from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from torch_trainium import _C, config, hardware
from torch_trainium.neuron._utils import Device, _get_device_index


@dataclass(frozen=True)
class DeviceProperties:
    """What a device is.

    Attributes:
        name: chip family, such as "trn2".
        total_memory: bytes of HBM that the device can use; shared with
            `devices_per_hbm_stack - 1` neighbours.
        architecture: the vendor's name of the NeuronCore generation.
        instance_type: the instance the device belongs to, such as "trn2.3xlarge".
        ultraserver: the UltraServer that the instance is part of, if any.
        multi_processor_count: physical NeuronCores behind this logical one.
        devices_per_hbm_stack: visible devices on the same HBM stack.
        major: NeuronCore version; see `get_device_capability`.
        minor: always 0.

    """

    name: str
    total_memory: int
    architecture: str
    instance_type: str
    ultraserver: str | None
    multi_processor_count: int
    devices_per_hbm_stack: int
    major: int
    minor: int


class device:
    """Context manager that makes `device` current; None and negative indices change nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.idx = _maybe_exchange_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the device of a tensor or storage current.

    Does nothing for one that is not on a neuron device.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.device.type == "neuron" else -1)


def is_available() -> bool:
    """Whether there is at least one device. Never raises and starts nothing."""
    return device_count() > 0


def device_count() -> int:
    """How many devices this process sees. Starts nothing."""
    return int(_C.device_count())


def current_device() -> int:
    """The index of the calling thread's current device."""
    return int(_C.current_device())


def set_device(device: Device) -> None:
    """Make `device` the calling thread's current one; does nothing for a negative index.

    Raises:
        RuntimeError: there is no such device.

    """
    index = _get_device_index(device)
    if index >= 0:
        _C.set_device(index)


def synchronize(device: Device = None) -> None:
    """Wait until all work on every stream of `device` is done."""
    _C.synchronize(_get_device_index(device, optional=True))


def get_device_properties(device: Device = None) -> DeviceProperties:
    """What `device` is; see `DeviceProperties`.

    Raises:
        RuntimeError: there is no such device.

    """
    index = _checked_index(device)
    machine = _C.machine()
    chosen = config.current().machine
    architecture = str(machine["architecture"])
    return DeviceProperties(
        name=hardware.instances()[machine["instance_type"]].chip.name,
        total_memory=_C.memory.mem_get_info(index)[1],
        architecture=architecture,
        instance_type=machine["instance_type"],
        ultraserver=chosen.ultraserver if chosen else None,
        multi_processor_count=machine["logical_core_size"],
        devices_per_hbm_stack=machine["devices_per_hbm_stack"],
        major=_core_version(architecture),
        minor=0,
    )


def get_device_name(device: Device = None) -> str:
    """The chip family of `device`, such as "trn2"."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """The version of the NeuronCore behind `device`: (3, 0) on trn2, (4, 0) on trn3.

    This is Amazon's numbering: it compares with no CUDA compute capability.
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether `device` can read the memory of `peer_device`: all of an instance's can.

    Raises:
        RuntimeError: one of them does not exist.

    """
    return _checked_index(device) != _checked_index(peer_device)


def _checked_index(device: Device) -> int:
    index = _get_device_index(device, optional=True)
    if not 0 <= index < device_count():
        # The runtime has the reason: no devices at all, or no such index.
        _C.init()
        raise RuntimeError(
            f"device index {index} is not in the {device_count()} devices that this process sees"
        )
    return index


def _core_version(architecture: str) -> int:
    return int("".join(filter(str.isdigit, architecture)) or 0)


def _exchange_device(index: int) -> int:
    return int(_C.exchange_device(index)) if index >= 0 else -1


def _maybe_exchange_device(index: int) -> int:
    return int(_C.maybe_exchange_device(index))


def get_arch_list() -> list[str]:
    """The NeuronCore architectures that the devices of this process have."""
    return [str(_C.machine()["architecture"])] if is_available() else []


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors work: always, on every NeuronCore generation."""
    return is_available()


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that `torch.autocast("neuron", dtype=...)` accepts."""
    return [torch.bfloat16, torch.float16, torch.float32]


def is_tf32_supported() -> bool:
    """Whether float32 matmuls may run in TF32: never; they keep every bit of float32."""
    return False


def device_memory_used(device: Device = None) -> int:
    """Bytes of the HBM stack of `device` that are taken, by any of the devices on it."""
    free_bytes, total_bytes = _C.memory.mem_get_info(_checked_index(device))
    return int(total_bytes - free_bytes)
