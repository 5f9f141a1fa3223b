"""Writes docs/hardware.md from the data files of torch_trainium/hardware.

python docs/hardware_facts.py          writes the page
python docs/hardware_facts.py --check  fails if the page is not current
"""

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from torch_trainium.hardware import Chip, Instance, UltraServer, chips, instances, ultraservers
from torch_trainium.hardware.environment import DEFAULT_INSTANCE, MAX_VISIBLE_DEVICES
from torch_trainium.hardware.facts import DATA
from torch_trainium.hardware.operator_classes import operators_by_class
from torch_trainium.hardware.pricing import prices
from torch_trainium.hardware.topology import LEVELS, links

PAGE = Path(__file__).with_name("hardware.md")
GIB = 2**30
T = TypeVar("T")
FILES = ("chips", "instances", "ultraservers", "links", "prices")

INTRODUCTION = f"""\
# The emulated hardware

Everything here is written from the data files in `torch_trainium/hardware/data/` by
`docs/hardware_facts.py`. There each value names its source and how sure it is, and where sources
disagree a comment says which is used and why. `torch_trainium.hardware` reads them for programs,
without importing torch:

```python
from torch_trainium.hardware import chips, instances, ultraservers
from torch_trainium.hardware.pricing import prices
from torch_trainium.hardware.topology import links, route

instances()["trn2.48xlarge"].hbm_bytes  # 1649267441664
links("trn3", optimistic=True)["server"].gbps
route(ultraservers()["trn2-ultraserver"], 0, 42)  # Route(level='ultraserver', hops=6)
```

## Choosing a machine

`TORCH_TRAINIUM_INSTANCE` or, before a device is first used, `torch.neuron.set_instance(name)`
takes any name of the tables of servers and UltraServers; `{DEFAULT_INSTANCE}` is the default.
Device count, memory, names and properties follow. One device is one logical NeuronCore of 2
physical cores, or of 1 with `NEURON_LOGICAL_NC_CONFIG=1`. `NEURON_RT_VISIBLE_CORES` and
`NEURON_RT_NUM_CORES` narrow what a process sees. On an UltraServer a process runs on one of the
servers, each of which has an operating system of its own, and sees that server's devices.

PyTorch keeps a device index in a signed byte, so a process can address {MAX_VISIBLE_DEVICES}
devices. A server of 16 chips with logical cores of one physical core has 128: a process that does
not say which it wants sees the first {MAX_VISIBLE_DEVICES} and is warned; one that asks for all 128
is refused. Every value that no machine has is refused with those that are allowed: `import torch`
still works, and the first use of a device, or `set_instance`, raises.
"""


def number(value: float | None) -> str:
    """With separators of thousands and no needless decimals; "-" where nothing is published."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown and the empty line after it."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def columns(things: Mapping[str, T], rows: Mapping[str, Callable[[T], str]]) -> list[str]:
    """A table with one thing in each column."""
    body = [[title, *map(show, things.values())] for title, show in rows.items()]
    return table(["", *things], body)


CHIP_ROWS: dict[str, Callable[[Chip], str]] = {
    "name of the device": lambda chip: chip.device_name,
    "architecture": lambda chip: chip.architecture,
    "physical cores": lambda chip: number(chip.physical_cores),
    "HBM": lambda chip: f"{chip.hbm_stacks} stacks of {number(chip.hbm_stack_bytes / GIB)} GiB",
    "HBM bandwidth, GB/s": lambda chip: number(chip.hbm_gbps),
    "SBUF, MiB": lambda chip: number(chip.sbuf_bytes / 2**20),
    "bf16, fp16 and tf32, TFLOPS": lambda chip: number(chip.bf16_tflops),
    "fp32, TFLOPS": lambda chip: number(chip.fp32_tflops),
    "fp8, TFLOPS": lambda chip: number(chip.fp8_tflops),
    "MX fp8 and fp4, TFLOPS": lambda chip: number(chip.mxfp8_tflops),
    "sparse, TFLOPS": lambda chip: number(chip.sparse_tflops),
    "cores for collectives": lambda chip: number(chip.collective_cores),
    "NeuronLink, both directions, GB/s": lambda chip: number(chip.neuronlink_gbps),
}
INSTANCE_ROWS: dict[str, Callable[[Instance], str]] = {
    "chips": lambda server: f"{server.chips} x {server.chip.name}",
    "devices at LNC 2 / 1": lambda server: " / ".join(
        str(server.logical_cores(size)) for size in (2, 1)
    ),
    "HBM, GiB": lambda server: number(server.hbm_bytes / GIB),
    "vCPU": lambda server: number(server.vcpus),
    "host memory, GiB": lambda server: number(server.host_memory_gib),
    "EFA, Gbit/s": lambda server: number(server.efa_gbit_per_s),
    "torus": lambda server: " x ".join(map(str, server.torus)) or "-",
}
ULTRASERVER_ROWS: dict[str, Callable[[UltraServer], str]] = {
    "servers": lambda whole: f"{whole.servers} x {whole.server.name}",
    "chips": lambda whole: number(whole.chips),
    "devices at LNC 2, all servers": lambda whole: number(
        whole.servers * whole.server.logical_cores(2)
    ),
    "HBM, GiB": lambda whole: number(whole.hbm_bytes / GIB),
    "between servers": lambda whole: whole.fabric,
    "servers of a rack": lambda whole: number(whole.servers_per_rack),
}


def link_tables() -> list[str]:
    """The links of every chip, as counted and with the optimistic headline."""
    lines = []
    for name in chips():
        plain, optimistic = links(name), links(name, optimistic=True)
        rows = [
            [
                level,
                number(plain[level].gbps),
                number(round(optimistic[level].gbps, 1)),
                number(plain[level].latency_us),
            ]
            for level in (*LEVELS, "host")
            if level in plain
        ]
        lines += [f"### {name}", ""]
        lines += table(["level", "GB/s, one way", "optimistic", "latency, us"], rows)
    return lines


def doubts() -> list[str]:
    """Every value that the vendor's documentation does not state as it is, with its source."""
    rows = []
    for file in FILES:
        tables = tomllib.loads((DATA / f"{file}.toml").read_text(encoding="utf-8"))
        sources = tables.pop("sources")
        for name, facts in tables.items():
            for key, fact in facts.items():
                if fact["confidence"] != "documented":
                    source = sources[fact["source"]]
                    value = f"`{fact['value']}`"
                    rows.append([f"{file}: {name}", key, value, fact["confidence"], source])
    return table(["table", "value", "", "confidence", "source"], rows)


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION, "## Chips", "", "What the datasheets state.", ""]
    lines += columns(chips(), CHIP_ROWS)
    lines += ["## Servers", "", "`-` where nothing is published.", ""]
    lines += columns(instances(), INSTANCE_ROWS)
    lines += ["## UltraServers", ""]
    lines += columns(ultraservers(), ULTRASERVER_ROWS)
    lines += ["## Links", "", *_comment_of("links.toml"), ""]
    lines += link_tables()
    lines += ["## Prices", "", *_comment_of("prices.toml"), ""]
    lines += table(
        ["machine", "plan", "USD an hour", "region", "seen", "confidence"],
        [
            [p.machine, p.plan, number(p.usd_per_hour), p.region, p.date, p.confidence]
            for p in prices()
        ],
    )
    lines += ["## Classes of operators", "", *_comment_of("operator_classes.toml"), ""]
    lines += table(
        ["class", "overloads"],
        [[f"`{name}`", number(len(names))] for name, names in operators_by_class().items()],
    )
    lines += ["## Measured, reported and inferred values", "", "All others are documented.", ""]
    lines += doubts()
    return "\n".join(lines).rstrip() + "\n"


def _comment_of(file_name: str) -> list[str]:
    """The comment that a data file begins with, as Markdown; columns of it become a list."""
    lines = []
    for line in (DATA / file_name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        text = line.removeprefix("#").removeprefix(" ")
        lines.append(re.sub(r"^ {2}(\S+) {2,}", r"- `\1`: ", text))
    return lines


if __name__ == "__main__":
    if "--check" in sys.argv:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE.name} is not current: run python docs/{Path(__file__).name}")
    else:
        PAGE.write_text(page())
