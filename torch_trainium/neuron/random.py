"""Seeds and generator states.

Each device has a default generator, a seed and an offset kept on the host: nothing here starts
the runtime, so a script may seed first and fork or choose devices later. A state is 16 bytes:
the seed (uint64) and the offset (int64) in the machine's byte order.
"""

from collections.abc import Iterable, Sequence
from typing import overload

import torch
from torch import Tensor

from torch_trainium import _C
from torch_trainium.neuron._utils import Device, _get_device_index


class _DefaultGenerators(Sequence[torch.Generator]):
    """The default generator of each device, by index."""

    def __len__(self) -> int:
        return _C.device_count()

    @overload
    def __getitem__(self, index: int) -> torch.Generator: ...

    @overload
    def __getitem__(self, index: slice) -> list[torch.Generator]: ...

    def __getitem__(self, index: int | slice) -> torch.Generator | list[torch.Generator]:
        devices = range(len(self))[index]
        if isinstance(devices, range):
            return [_C.default_generator(device) for device in devices]
        return _C.default_generator(devices)


default_generators = _DefaultGenerators()


def _get_generator(device: Device = None) -> torch.Generator:
    """The default generator of `device`, or of the current device."""
    return _C.default_generator(_get_device_index(device, optional=True))


def manual_seed(seed: int) -> None:
    """Seed the current device's generator and set its offset to 0.

    Does nothing where no device is available, so that a script can call it anywhere.

    Args:
        seed: in [-2^63, 2^64); negative seeds count from 2^64 down.

    """
    if _C.device_count() > 0:
        _get_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices, each with the same seed; `torch.manual_seed` does too.

    Does nothing where no device is available.
    """
    seed = int(seed)
    for generator in default_generators:
        generator.manual_seed(seed)


def seed() -> None:
    """Seed the current device's generator from the operating system's entropy."""
    if _C.device_count() > 0:
        _get_generator().seed()


def seed_all() -> None:
    """Seed the generators of all devices, each with the same seed, from entropy."""
    if _C.device_count() > 0:
        manual_seed_all(default_generators[0].seed())


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return _get_generator().initial_seed()


def get_rng_state(device: Device = "neuron") -> Tensor:
    """Return the state of a device's generator: 16 bytes, a uint8 tensor on the CPU."""
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[Tensor]:
    """Return the state of every device's generator."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state(new_state: Tensor, device: Device = "neuron") -> None:
    """Set the state of a device's generator to one that `get_rng_state` returned.

    Raises:
        TypeError: the state is no uint8 tensor on the CPU.
        RuntimeError: it has not 16 bytes, or an offset that no generator has.

    """
    _get_generator(device).set_state(new_state.contiguous())


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the state of every device's generator, in the order of `get_rng_state_all`."""
    for device, state in enumerate(new_states):
        set_rng_state(state, device)


def _get_rng_state_offset(device: Device = "neuron") -> int:
    """The offset of a device's generator."""
    return _get_generator(device).get_offset()


def _set_rng_state_offset(offset: int, device: Device = "neuron") -> None:
    """Set the offset of a device's generator, a multiple of 4 in [0, 2^62)."""
    _get_generator(device).set_offset(offset)
