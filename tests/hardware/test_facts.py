import tomllib

import pytest

from torch_trainium.hardware import chips, instances
from torch_trainium.hardware.facts import DATA

# Classes of operators are our reading of what each does, not facts with a source each.
FILES = sorted(set(DATA.glob("*.toml")) - {DATA / "operator_classes.toml"})


def facts_of(path):
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    sources = tables.pop("sources")
    return sources, [
        (f"{name}.{key}", fact) for name, facts in tables.items() for key, fact in facts.items()
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_fact_names_a_listed_source_and_its_confidence(path):
    sources, facts = facts_of(path)
    assert facts
    for name, fact in facts:
        assert fact.keys() == {"value", "source", "confidence"}, name
        assert fact["source"] in sources, name
        assert fact["confidence"] in ("documented", "measured", "reported", "inferred"), name


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


def test_every_instance_is_made_of_known_chips():
    assert {instance.chip.device_name for instance in instances().values()} == {
        chip.device_name for chip in chips().values()
    }
