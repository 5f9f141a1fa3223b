"""Chips, servers and UltraServers, read from the data files beside this module."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Chip:
    """One accelerator chip, as its table in chips.toml describes it.

    The rates are the datasheet's. `mxfp8_tflops` is None on a chip without MX types;
    `neuronlink_gbps` counts both directions of all links.
    """

    name: str
    device_name: str
    architecture: str
    physical_cores: int
    hbm_stacks: int
    hbm_stack_bytes: int
    logical_core_sizes: tuple[int, ...]
    default_logical_core_size: int
    bf16_tflops: float
    fp32_tflops: float
    fp8_tflops: float
    sparse_tflops: float
    hbm_gbps: float
    sbuf_bytes: int
    collective_cores: int
    neuronlink_gbps: float
    mxfp8_tflops: float | None = None

    @property
    def hbm_bytes(self) -> int:
        """All stacks together."""
        return self.hbm_stacks * self.hbm_stack_bytes


@dataclass(frozen=True)
class Instance:
    """One server: a number of chips of one kind and their host.

    What nobody has published is None. `torus` has the sizes of the torus that the chips
    form, numbered row by row, and is empty where they do not.
    """

    name: str
    chip: Chip
    chips: int
    vcpus: int | None = None
    host_memory_gib: int | None = None
    efa_gbit_per_s: float | None = None
    torus: tuple[int, ...] = ()

    @property
    def hbm_bytes(self) -> int:
        """Of all chips together."""
        return self.chips * self.chip.hbm_bytes

    def logical_cores(self, logical_core_size: int) -> int:
        """How many devices there are with `logical_core_size` physical cores each."""
        return self.chips * self.chip.physical_cores // logical_core_size


@dataclass(frozen=True)
class UltraServer:
    """Servers of one kind whose chips are one domain of NeuronLink.

    `fabric` is "ring" where chips at the same place of each server form a ring, "switch"
    where all chips reach each other through switches.
    """

    name: str
    server: Instance
    servers: int
    fabric: str
    servers_per_rack: int | None = None

    @property
    def chip(self) -> Chip:
        """The kind of its chips."""
        return self.server.chip

    @property
    def chips(self) -> int:
        """Of all servers together."""
        return self.servers * self.server.chips

    @property
    def hbm_bytes(self) -> int:
        """Of all chips together."""
        return self.servers * self.server.hbm_bytes


def read_facts(file_name: str) -> dict[str, dict[str, Any]]:
    """The values of every table of a data file, without their sources; lists as tuples."""
    tables = tomllib.loads((DATA / file_name).read_text(encoding="utf-8"))
    return {
        name: {key: _frozen(fact["value"]) for key, fact in facts.items()}
        for name, facts in tables.items()
        if name != "sources"
    }


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@cache
def chips() -> dict[str, Chip]:
    """Every known chip by its name, such as "trn2"."""
    return {name: Chip(name=name, **values) for name, values in read_facts("chips.toml").items()}


@cache
def instances() -> dict[str, Instance]:
    """Every known server by its instance type, such as "trn2.3xlarge"."""
    return {
        name: Instance(name=name, **{**values, "chip": chips()[values["chip"]]})
        for name, values in read_facts("instances.toml").items()
    }


@cache
def ultraservers() -> dict[str, UltraServer]:
    """Every known UltraServer by its name, such as "trn2-ultraserver"."""
    return {
        name: UltraServer(name=name, **{**values, "server": instances()[values["server"]]})
        for name, values in read_facts("ultraservers.toml").items()
    }
