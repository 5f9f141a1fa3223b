"""The devices one process sees: an instance, narrowed by environment variables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch_trainium.errors import TrainiumError
from torch_trainium.hardware.facts import Chip, Instance, UltraServer, instances, ultraservers

DEFAULT_INSTANCE = "trn2.3xlarge"
# PyTorch keeps a device index in a signed byte.
MAX_VISIBLE_DEVICES = 127


class ConfigurationError(TrainiumError, ValueError):
    """A setting asks for a machine that does not exist; the message has the allowed values."""

    def __init__(self, variable: str, given: str, why: str, remedy: str) -> None:
        super().__init__(f"{variable}={given!r} is not valid: {why}. {remedy}")
        self.variable = variable
        self._details = (given, why, remedy)

    def renamed(self, name: str) -> "ConfigurationError":
        """The same error for who gave the setting under another name."""
        return ConfigurationError(name, *self._details)


@dataclass(frozen=True)
class Machine:
    """What one process sees: `device_count` logical cores and the HBM behind them.

    `cores` are the numbers of those cores on their server, which has `core_count`; on an
    UltraServer the process runs on one of its servers.
    """

    instance_type: str
    ultraserver: str | None
    chip: str
    device_name: str
    architecture: str
    core_count: int
    cores: tuple[int, ...]
    device_count: int
    logical_core_size: int
    devices_per_hbm_stack: int
    hbm_stack_bytes: int
    guard_device_memory: bool


def machine(environ: Mapping[str, str]) -> Machine:
    """The machine that the variables in `environ` describe.

    Without a list of visible cores, or a number of them, a process sees the first
    MAX_VISIBLE_DEVICES cores of a server that has more.

    Reads TORCH_TRAINIUM_INSTANCE, NEURON_LOGICAL_NC_CONFIG (older name
    NEURON_RT_VIRTUAL_CORE_SIZE), NEURON_RT_VISIBLE_CORES, NEURON_RT_NUM_CORES,
    TORCH_TRAINIUM_HBM_BYTES and TORCH_TRAINIUM_GUARD. An empty variable counts as unset.

    Raises:
        ConfigurationError: a variable has a value that no machine has.

    """
    return machine_of(non_empty(environ))


def non_empty(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that count as set, without the blanks around their values."""
    return {name: value.strip() for name, value in environ.items() if value.strip()}


def machine_of(given: Mapping[str, str]) -> Machine:
    """The machine that the settings `given` describe, where an empty one is not unset.

    Raises:
        ConfigurationError: a setting has a value that no machine has.

    """
    chosen = _instance_or_ultraserver(given)
    instance = chosen.server if isinstance(chosen, UltraServer) else chosen
    core_size = _logical_core_size(given, instance.chip)
    cores = _visible_cores(given, instance, core_size)
    return Machine(
        instance_type=instance.name,
        ultraserver=chosen.name if isinstance(chosen, UltraServer) else None,
        chip=instance.chip.name,
        device_name=instance.chip.device_name,
        architecture=instance.chip.architecture,
        core_count=instance.logical_cores(core_size),
        cores=cores,
        device_count=len(cores),
        logical_core_size=core_size,
        devices_per_hbm_stack=_devices_per_hbm_stack(cores, instance.chip, core_size),
        hbm_stack_bytes=_hbm_stack_bytes(given, instance.chip),
        guard_device_memory=_guard(given),
    )


def parse_core_list(text: str, core_count: int) -> tuple[int, ...]:
    """The cores that a NEURON_RT_VISIBLE_CORES value such as "0", "0-3" or "0,2" names.

    Raises:
        ConfigurationError: the text is no list of indices and ranges, the cores do not
            ascend, or one of them is not in [0, core_count).

    """

    def refuse(why: str) -> ConfigurationError:
        return ConfigurationError(
            "NEURON_RT_VISIBLE_CORES",
            text,
            why,
            f"Name ascending logical cores between 0 and {core_count - 1}, for example 0, "
            "0-3 or 0,2.",
        )

    cores: list[int] = []
    for item in text.split(","):
        ends = [_whole_number(end.strip()) for end in item.split("-")]
        first, last = ends[0], ends[-1]
        if len(ends) > 2 or first is None or last is None:
            raise refuse(f"{item.strip()!r} is neither a core nor a range of cores")
        if first > last:
            raise refuse(f"the range {item.strip()!r} descends")
        if last >= core_count:
            raise refuse(f"the instance has {core_count} logical cores")
        cores.extend(range(first, last + 1))
    if any(left >= right for left, right in pairwise(cores)):
        raise refuse("the cores are not in ascending order")
    return tuple(cores)


def _whole_number(text: str) -> int | None:
    """The value of a plain decimal number below 10**18, None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _instance_or_ultraserver(given: Mapping[str, str]) -> Instance | UltraServer:
    name = given.get("TORCH_TRAINIUM_INSTANCE", DEFAULT_INSTANCE)
    found = instances().get(name) or ultraservers().get(name)
    if found is None:
        known = ", ".join([*instances(), *ultraservers()])
        raise ConfigurationError(
            "TORCH_TRAINIUM_INSTANCE",
            name,
            "no such instance type is known",
            f"Use one of {known}; the default is {DEFAULT_INSTANCE}.",
        )
    return found


def _logical_core_size(given: Mapping[str, str], chip: Chip) -> int:
    names = ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE")
    sizes = {name: given[name] for name in names if name in given}
    for name, text in sizes.items():
        if text not in map(str, chip.logical_core_sizes):
            allowed = " or ".join(map(str, chip.logical_core_sizes))
            raise ConfigurationError(
                name,
                text,
                f"a logical core of {chip.device_name} has {allowed} physical cores",
                f"The default is {chip.default_logical_core_size}.",
            )
    if len(set(sizes.values())) > 1:
        raise ConfigurationError(
            names[1],
            sizes[names[1]],
            f"{names[0]} says {sizes[names[0]]}",
            f"They are two names of one setting: unset {names[1]}, the older one.",
        )
    return int(next(iter(sizes.values()), chip.default_logical_core_size))


def _visible_cores(given: Mapping[str, str], instance: Instance, core_size: int) -> tuple[int, ...]:
    core_count = instance.logical_cores(core_size)
    if "NEURON_RT_VISIBLE_CORES" in given:
        variable = "NEURON_RT_VISIBLE_CORES"
        cores = parse_core_list(given[variable], core_count)
    else:
        variable = "NEURON_RT_NUM_CORES"
        cores = tuple(range(_core_total(given, core_count)))
    if len(cores) > MAX_VISIBLE_DEVICES:
        raise ConfigurationError(
            variable,
            given[variable],
            f"these are {len(cores)} devices, and PyTorch can address {MAX_VISIBLE_DEVICES}",
            f"Set NEURON_RT_VISIBLE_CORES to a part of them, such as 0-{MAX_VISIBLE_DEVICES - 1}.",
        )
    return cores


def _core_total(given: Mapping[str, str], core_count: int) -> int:
    """How many cores NEURON_RT_NUM_CORES asks for; 0 means all that can be seen."""
    text = given.get("NEURON_RT_NUM_CORES", "0")
    total = _whole_number(text)
    if total is None or total > core_count:
        raise ConfigurationError(
            "NEURON_RT_NUM_CORES",
            text,
            f"the instance has {core_count} logical cores",
            f"Use a number from 1 to {core_count}, or 0 for all.",
        )
    return total or min(core_count, MAX_VISIBLE_DEVICES)


def _devices_per_hbm_stack(cores: Sequence[int], chip: Chip, core_size: int) -> int:
    """How many consecutive devices share a stack, given the physical place of each.

    Logical cores narrower than a stack's share sit side by side on it, so a gap in the
    visible cores can separate neighbours: 0,2 are on two stacks where 0-1 are on one.
    """
    cores_per_stack = chip.physical_cores // core_size // chip.hbm_stacks
    stacks = [core // cores_per_stack for core in cores]
    for shared in sorted({1, cores_per_stack}):
        if all(
            (stacks[i] == stacks[j]) == (i // shared == j // shared)
            for i, j in pairwise(range(len(stacks)))
        ):
            return shared
    raise ConfigurationError(
        "NEURON_RT_VISIBLE_CORES",
        ",".join(map(str, cores)),
        f"some of these devices share an HBM stack with their neighbour and some do not "
        f"(cores {cores_per_stack * stacks[0]}-{cores_per_stack * (stacks[0] + 1) - 1} share one)",
        f"Name whole stacks of {cores_per_stack} cores, or one core of each.",
    )


def _hbm_stack_bytes(given: Mapping[str, str], chip: Chip) -> int:
    text = given.get("TORCH_TRAINIUM_HBM_BYTES", str(chip.hbm_stack_bytes))
    size = _whole_number(text)
    if size is None or not 0 < size <= chip.hbm_stack_bytes:
        raise ConfigurationError(
            "TORCH_TRAINIUM_HBM_BYTES",
            text,
            f"an HBM stack of {chip.device_name} has {chip.hbm_stack_bytes} bytes",
            f"Use a whole number of bytes from 1 to {chip.hbm_stack_bytes}.",
        )
    return size


def _guard(given: Mapping[str, str]) -> bool:
    text = given.get("TORCH_TRAINIUM_GUARD", "0")
    if text not in ("0", "1"):
        raise ConfigurationError(
            "TORCH_TRAINIUM_GUARD",
            text,
            "it is a switch",
            "Use 1 to make host access to device memory fault, 0 or nothing otherwise.",
        )
    return text == "1"
