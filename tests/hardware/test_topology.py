from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_trainium.hardware import chips, instances, ultraservers
from torch_trainium.hardware.topology import (
    LEVELS,
    NEURONLINK_LEVELS,
    links,
    outermost_level,
    route,
)

MACHINES = {**instances(), **ultraservers()}


def neuronlink_gbps(chip, *, optimistic):
    levels = links(chip, optimistic=optimistic)
    return sum(link.gbps for level, link in levels.items() if level in NEURONLINK_LEVELS)


@pytest.mark.parametrize("chip", chips())
def test_levels_are_the_known_ones(chip):
    assert set(links(chip)) <= {*LEVELS, "host"}
    assert {"core", "server", "ultraserver", "network", "host"} <= set(links(chip))


def test_neuronlink_v3_adds_up_to_its_headline():
    assert 2 * neuronlink_gbps("trn2", optimistic=False) == chips()["trn2"].neuronlink_gbps
    assert links("trn2", optimistic=True) == links("trn2")


def test_neuronlink_v4_adds_up_to_its_headline_only_when_optimistic():
    assert neuronlink_gbps("trn3", optimistic=False) == 704
    headline = chips()["trn3"].neuronlink_gbps
    assert 2 * neuronlink_gbps("trn3", optimistic=True) == pytest.approx(headline)


def test_optimism_leaves_other_links_alone():
    for level in ("core", "network", "host"):
        assert links("trn3", optimistic=True)[level] == links("trn3")[level]


def test_unknown_chip_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'trn9'; there are trn2, trn3"):
        links("trn9")


@pytest.mark.parametrize("name", MACHINES)
def test_every_level_of_a_machine_has_a_link(name):
    machine = MACHINES[name]
    reached = {route(machine, 0, chip).level for chip in range(machine.chips)}
    assert reached <= set(links(machine.chip.name))


@pytest.mark.parametrize(
    ("name", "first", "second", "level", "hops"),
    [
        ("trn2.3xlarge", 0, 0, "core", 1),
        ("trn2.48xlarge", 0, 1, "server", 1),
        # Around the end of a row, and of a column.
        ("trn2.48xlarge", 0, 3, "server", 1),
        ("trn2.48xlarge", 0, 12, "server", 1),
        # The farthest place of the torus.
        ("trn2.48xlarge", 0, 10, "server", 4),
        ("trn2-ultraserver", 5, 10, "server", 2),
        ("trn2-ultraserver", 0, 16, "ultraserver", 1),
        ("trn2-ultraserver", 0, 48, "ultraserver", 1),
        ("trn2-ultraserver", 0, 32, "ultraserver", 2),
        ("trn2-ultraserver", 0, 42, "ultraserver", 6),
        ("trn3-gen1-ultraserver", 0, 15, "server", 1),
        ("trn3-gen1-ultraserver", 0, 16, "rack", 1),
        ("trn3-gen1-ultraserver", 0, 32, "ultraserver", 1),
        ("trn3-gen2-ultraserver", 0, 3, "server", 1),
        ("trn3-gen2-ultraserver", 0, 71, "rack", 1),
        ("trn3-gen2-ultraserver", 71, 72, "ultraserver", 1),
    ],
)
def test_route_between_two_chips(name, first, second, level, hops):
    found = route(MACHINES[name], first, second)
    assert (found.level, found.hops) == (level, hops)
    assert route(MACHINES[name], second, first) == found


@pytest.mark.parametrize("name", ["trn2.48xlarge", "trn2-ultraserver"])
def test_hops_of_a_torus_are_those_of_a_walk_over_its_links(name):
    machine = MACHINES[name]
    neighbours = {
        chip: [other for other in range(machine.chips) if other != chip and is_link(chip, other)]
        for chip in range(machine.chips)
    }
    degree = 4 if name == "trn2.48xlarge" else 6
    assert {len(found) for found in neighbours.values()} == {degree}
    walked, frontier = {0: 0}, [0]
    while frontier:
        chip = frontier.pop(0)
        for near in neighbours[chip]:
            if near not in walked:
                walked[near] = walked[chip] + 1
                frontier.append(near)
    hops = {chip: route(machine, 0, chip).hops for chip in range(1, machine.chips)}
    assert {0: 0, **hops} == walked


def is_link(first, second):
    """Whether two chips are one step apart on one of three axes of 4, around its end too."""
    steps = [(first // stride - second // stride) % 4 for stride in (1, 4, 16)]
    return [step for step in steps if step] in ([1], [3])


@pytest.mark.parametrize("chip", [-1, 16])
def test_a_chip_that_the_machine_lacks_is_refused(chip):
    with pytest.raises(ValueError, match=r"trn2\.48xlarge has chips 0 to 15"):
        route(instances()["trn2.48xlarge"], 0, chip)


@pytest.mark.parametrize(
    ("name", "group", "level"),
    [
        ("trn2.48xlarge", [3], "core"),
        ("trn2.48xlarge", range(16), "server"),
        ("trn2-ultraserver", range(16, 32), "server"),
        ("trn2-ultraserver", range(15, 17), "ultraserver"),
        ("trn3-gen2-ultraserver", range(0, 72, 4), "rack"),
        ("trn3-gen2-ultraserver", [0, 1, 143], "ultraserver"),
    ],
)
def test_outermost_level_of_a_group(name, group, level):
    assert outermost_level(MACHINES[name], group) == level


@given(st.lists(st.integers(0, 143), min_size=2, max_size=8))
def test_outermost_level_is_that_of_the_pair_farthest_apart(group):
    machine = MACHINES["trn3-gen2-ultraserver"]
    pairs = [route(machine, a, b).level for a, b in combinations(group, 2)]
    assert outermost_level(machine, group) == max(pairs, key=LEVELS.index)


def test_an_empty_group_is_refused():
    with pytest.raises(ValueError, match="at least one chip"):
        outermost_level(MACHINES["trn2.48xlarge"], [])
