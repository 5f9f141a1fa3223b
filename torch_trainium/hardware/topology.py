"""How chips reach each other: the levels of links.toml and the way between two chips."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import prod
from types import MappingProxyType

from torch_trainium.hardware.facts import Instance, UltraServer, chips, read_facts

# Nearest first: two chips are at the first level that holds both.
LEVELS = ("core", "server", "rack", "ultraserver", "network")
NEURONLINK_LEVELS = ("server", "rack", "ultraserver")


@dataclass(frozen=True)
class Link:
    """What one level carries, in one direction.

    Attributes:
        level: one of `LEVELS`, or "host".
        gbps: 10^9 bytes a second of one chip over all its links of the level; at "core", of
            one logical core of two physical ones.
        latency_us: of one hop; at "host", of one transfer.

    """

    level: str
    gbps: float
    latency_us: float


@dataclass(frozen=True)
class Route:
    """The way between two chips: its outermost level and how many links it passes."""

    level: str
    hops: int


@cache
def links(chip: str, *, optimistic: bool = False) -> Mapping[str, Link]:
    """The links of `chip`, such as "trn2", by level.

    `optimistic` scales the levels of NeuronLink so that they add up to the chip's headline;
    links.toml says why they may not.

    Raises:
        ValueError: no such chip.

    """
    if chip not in chips():
        raise ValueError(f"no chip is called {chip!r}; there are {', '.join(chips())}")
    levels = {
        name.partition(".")[2]: Link(level=name.partition(".")[2], **values)
        for name, values in read_facts("links.toml").items()
        if name.partition(".")[0] == chip
    }
    if optimistic:
        neuronlink = [levels[name] for name in NEURONLINK_LEVELS if name in levels]
        # The headline counts both directions.
        headline_gbps = chips()[chip].neuronlink_gbps / 2
        scale = headline_gbps / sum(link.gbps for link in neuronlink)
        levels |= {link.level: replace(link, gbps=link.gbps * scale) for link in neuronlink}
    return MappingProxyType(levels)


def route(machine: Instance | UltraServer, first: int, second: int) -> Route:
    """The shortest way from chip `first` to chip `second` of `machine`.

    Chips are numbered server by server, within a torus row by row.

    Raises:
        ValueError: the machine has no such chip.

    """
    for chip in (first, second):
        if not 0 <= chip < machine.chips:
            raise ValueError(f"{machine.name} has chips 0 to {machine.chips - 1}, not {chip}")
    if first == second:
        return Route("core", 1)
    if isinstance(machine, Instance):
        return Route("server", _hops_inside(machine, first, second))
    server = machine.server
    (from_server, from_place), (to_server, to_place) = (
        divmod(chip, server.chips) for chip in (first, second)
    )
    if from_server == to_server:
        return Route("server", _hops_inside(server, from_place, to_place))
    if machine.fabric == "ring":
        along = _ring_hops(machine.servers, from_server, to_server)
        return Route("ultraserver", along + _hops_inside(server, from_place, to_place))
    per_rack = machine.servers_per_rack or machine.servers
    same_rack = from_server // per_rack == to_server // per_rack
    return Route("rack" if same_rack else "ultraserver", 1)


def outermost_level(machine: Instance | UltraServer, group: Iterable[int]) -> str:
    """The outermost level that links the chips of `group`: what a collective over them crosses.

    Raises:
        ValueError: the group is empty, or the machine has no such chip.

    """
    members = list(group)
    if not members:
        raise ValueError("a group has at least one chip")
    # Levels nest: whichever neighbours of the list are farthest apart cross the outermost.
    pairs = pairwise([members[0], *members])
    return max((route(machine, a, b).level for a, b in pairs), key=LEVELS.index)


def _ring_hops(size: int, first: int, second: int) -> int:
    distance = abs(first - second)
    return min(distance, size - distance)


def _hops_inside(server: Instance, first: int, second: int) -> int:
    """Links between two chips of a server: along its torus, or one through its switch."""
    if not server.torus:
        return int(first != second)
    hops = 0
    for axis, size in enumerate(server.torus):
        stride = prod(server.torus[axis + 1 :])
        hops += _ring_hops(size, first // stride % size, second // stride % size)
    return hops
