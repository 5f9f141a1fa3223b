"""What programs cost, by operator and by the user's line."""

import pytest
import torch

from torch_trainium import eager
from torch_trainium.eager import calls
from torch_trainium.engines import memory_maps, programs
from torch_trainium.engines.programs import Origin, program_cache


@pytest.fixture(autouse=True)
def compiled():
    with eager.eager_mode_is("compiled"), eager.fallback_is("error"):
        yield


def rows(operator: str, inputs: str) -> list[eager.ProgramRecord]:
    found = eager.program_statistics().programs
    return [p for p in found if p.operator == operator and p.inputs == (inputs,)]


def test_a_miss_has_its_operator_line_and_seconds_and_every_call_counts():
    a = torch.ones(5, 77, device="neuron")
    for _ in range(4):
        torch.tanh(a)
    (record,) = rows("aten::tanh", "f32[5x77]")
    assert record.calls == 4
    assert "test_statistics.py" in record.line
    assert record.origin in (Origin.COMPILER, Origin.DISK)
    assert record.seconds > 0


def test_hits_count_neither_compiles_nor_misses():
    a = torch.ones(5, 78, device="neuron")
    torch.tanh(a)
    before = eager.program_statistics()
    for _ in range(7):
        torch.tanh(a)
    after = eager.program_statistics()
    assert after.hits - before.hits == 7
    assert (after.misses, after.compiles) == (before.misses, before.compiles)


def test_an_operator_with_an_equal_program_takes_it_from_memory():
    a = torch.ones(5, 79, device="neuron")
    torch.tanh(a)
    a.tanh_()
    (record,) = rows("aten::tanh_", "f32[5x79]")
    assert record.origin is Origin.MEMORY


def test_every_copy_out_of_the_compilers_buffers_is_counted():
    a = torch.ones(16, device="neuron")
    torch.tanh(a)
    before = eager.program_statistics().stored_bytes
    torch.tanh(a)
    assert eager.program_statistics().stored_bytes - before == 64


def test_they_print_with_totals_first():
    torch.tanh(torch.ones(3, device="neuron"))
    lines = str(eager.program_statistics()).splitlines()
    assert "compiled in" in lines[0]
    assert any("aten::tanh f32[3]" in line for line in lines[1:])


def test_programs_beyond_the_most_that_fit_are_released_and_found_again(monkeypatch):
    monkeypatch.setattr(programs, "LOADS_PER_COUNT", 8)
    monkeypatch.setattr(program_cache(), "max_maps", 0)
    calls.release_programs()
    before = eager.program_statistics()
    for _ in range(2):
        for length in range(900, 912):
            a = torch.ones(length, device="neuron")
            assert (a * 3 + a).sum().item() == 4 * length
            assert len(program_cache()._programs) <= 9
    after = eager.program_statistics()
    assert after.compiles + after.disk_hits - before.compiles - before.disk_hits > 36
    assert after.misses - before.misses > 36


def test_a_release_gives_memory_maps_back():
    calls.release_programs()
    fewest = memory_maps.count()
    for length in range(920, 940):
        torch.neg(torch.ones(length, device="neuron"))
    most = memory_maps.count()
    calls.release_programs()
    assert most - fewest >= 60  # a program has at least three
    assert memory_maps.count() - fewest <= (most - fewest) / 2


def test_a_call_that_was_prepared_before_a_release_still_runs():
    a = torch.full((913,), 2.0, device="neuron")
    prepared = calls.operator(torch.ops.aten.neg.default).prepare([a])
    calls.release_programs()
    assert torch.equal(prepared().cpu(), torch.full((913,), -2.0))
