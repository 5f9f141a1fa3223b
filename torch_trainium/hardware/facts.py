"""Chips and instances, read from the data files beside this module."""

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
    """One EC2 instance type: a number of chips of one kind."""

    name: str
    chip: Chip
    chips: int


def read_facts(file_name: str) -> dict[str, dict[str, Any]]:
    """The values of every table of a data file, without their sources."""
    tables = tomllib.loads((DATA / file_name).read_text(encoding="utf-8"))
    return {
        name: {key: fact["value"] for key, fact in facts.items()}
        for name, facts in tables.items()
        if name != "sources"
    }


@cache
def chips() -> dict[str, Chip]:
    """Every known chip by its name, such as "trn2"."""
    return {
        name: Chip(
            name=name, **{**values, "logical_core_sizes": tuple(values["logical_core_sizes"])}
        )
        for name, values in read_facts("chips.toml").items()
    }


@cache
def instances() -> dict[str, Instance]:
    """Every known instance type by its name, such as "trn2.3xlarge"."""
    return {
        name: Instance(name, chips()[values["chip"]], values["chips"])
        for name, values in read_facts("instances.toml").items()
    }
