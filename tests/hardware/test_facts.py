import tomllib
from math import prod

import pytest

from torch_trainium.hardware import chips, instances, ultraservers
from torch_trainium.hardware.facts import DATA

# Classes of operators are our reading of what each does, calibrated constants are fitted.
NO_FACTS = {DATA / "operator_classes.toml", DATA / "calibrated.toml"}
FILES = sorted(set(DATA.glob("*.toml")) - NO_FACTS)


CONFIDENCES = ("documented", "measured", "reported", "inferred", "unmeasured")
# What a fact says beside its value, source and confidence.
MORE_OF_A_PRICE = {"region", "date"}


def facts_in(table, name):
    for key, entry in table.items():
        if "value" in entry:
            yield f"{name}.{key}", entry
        else:
            yield from facts_in(entry, f"{name}.{key}")


def facts_of(path):
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    sources = tables.pop("sources")
    return sources, list(facts_in(tables, path.stem))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_fact_names_a_listed_source_and_its_confidence(path):
    sources, facts = facts_of(path)
    assert facts
    more = MORE_OF_A_PRICE if path.name == "prices.toml" else set()
    for name, fact in facts:
        assert fact.keys() == {"value", "source", "confidence"} | more, name
        assert fact["source"] in sources, name
        assert fact["confidence"] in CONFIDENCES, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_listed_source_is_used(path):
    sources, facts = facts_of(path)
    assert {fact["source"] for _, fact in facts} == set(sources)


@pytest.mark.parametrize(("chip", "hbm_gib"), [("trn2", 96), ("trn3", 144)])
def test_stacks_add_up_to_the_documented_hbm_of_a_chip(chip, hbm_gib):
    assert chips()[chip].hbm_stacks * chips()[chip].hbm_stack_bytes == hbm_gib * 1024**3


def test_logical_cores_divide_the_cores_of_every_stack():
    for chip in chips().values():
        cores_per_stack = chip.physical_cores // chip.hbm_stacks
        assert cores_per_stack * chip.hbm_stacks == chip.physical_cores
        assert all(cores_per_stack % size == 0 for size in chip.logical_core_sizes)
        assert chip.default_logical_core_size in chip.logical_core_sizes


@pytest.mark.parametrize(
    ("name", "chips_in_all", "vcpus", "host_gib", "hbm_gib", "bf16_pflops", "efa_gbit_per_s"),
    [
        # The documented totals; of trn2's EFA the table prints what one server has.
        ("trn2-ultraserver", 64, 768, 8192, 6144, 42.8, 12800),
        ("trn3-gen1-ultraserver", 64, 768, 8192, 9216, 42.944, 12800),
        ("trn3-gen2-ultraserver", 144, 2304, 27648, 20736, 96.624, 28800),
    ],
)
def test_servers_add_up_to_the_documented_ultraserver(
    name, chips_in_all, vcpus, host_gib, hbm_gib, bf16_pflops, efa_gbit_per_s
):
    whole = ultraservers()[name]
    assert whole.chips == chips_in_all
    assert whole.servers * whole.server.vcpus == vcpus
    assert whole.servers * whole.server.host_memory_gib == host_gib
    assert whole.hbm_bytes == hbm_gib * 1024**3
    assert whole.chips * whole.chip.bf16_tflops / 1000 == pytest.approx(bf16_pflops, rel=0.005)
    assert whole.servers * whole.server.efa_gbit_per_s == efa_gbit_per_s


def test_a_torus_has_a_place_for_every_chip():
    tori = [instance for instance in instances().values() if instance.torus]
    assert tori
    assert all(prod(instance.torus) == instance.chips for instance in tori)


@pytest.mark.parametrize("name", ultraservers())
def test_racks_hold_whole_servers(name):
    whole = ultraservers()[name]
    assert whole.servers % (whole.servers_per_rack or whole.servers) == 0
    assert whole.fabric in ("ring", "switch")
