"""What checks found, and the file that keeps it."""

import torch

from torch_trainium.lowering import proofs, verdicts
from torch_trainium.lowering.proofs import Proof, Proofs

F32, F16, I64 = torch.float32, torch.float16, torch.int64


def test_tokens_that_not_every_program_has_are_told_apart():
    found = Proofs()
    found.record("aten::pow", [F32], {"power@f32", "multiply"})
    found.record("aten::pow", [F32], {"multiply"})
    assert found.of("aten::pow")[F32][""].always == {"multiply"}
    assert found.of("aten::pow")[F32][""].sometimes == {"power@f32"}


def test_a_trivial_program_does_not_make_an_operation_rare():
    found = Proofs()
    found.record("aten::sort", [F32], {"sort"})
    found.record("aten::sort", [F32], {"reshape"}, is_trivial=True)
    assert found.of("aten::sort")[F32][""].always == {"sort"}


def test_the_dtypes_of_the_calls_own_tensors_are_no_finding():
    found = Proofs()
    found.record("aten::where.self", [torch.bool, F32, F32], {"select", "@i1", "@f32", "@i64"})
    assert found.of("aten::where.self")[torch.bool][""].always == {"select", "@i64"}


def test_the_file_keeps_everything(tmp_path):
    found = Proofs()
    found.record("aten::add", [F32], {"add"})
    found.record("aten::add", [F16], {"add"})
    found.record("aten::add", [F16], {"add", "convert"})
    found.record("aten::clone", [I64], ())
    found.record("aten::normal", [F32], {"log"}, check="distribution")
    found.record_problem("aten::nonzero", [F32], "its size depends on the data!")
    found.record_problem("aten::add", [I64], "overflows\nsomewhere")
    found.record_composition("aten::unique", ["aten::sort", "aten::ne.Tensor"])
    path = tmp_path / "emitted.json"
    proofs.write(found, path)
    kept = proofs.read(path)
    assert list(kept) == list(found)
    for overload in found:
        assert kept.of(overload) == found.of(overload)
        assert kept.check_of(overload) == found.check_of(overload)
        assert kept.parts_of(overload) == found.parts_of(overload)
    proofs.write(kept, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_dtypes_with_the_same_findings_share_a_line():
    found = Proofs()
    for dtype in (F32, F16):
        found.record("aten::add", [dtype], {"add", "multiply"})
    assert found.to_json() == {"aten::add": {"float16 float32": "add multiply"}}


def test_uses_are_told_apart():
    found = Proofs()
    found.record("aten::put", [I64], {"scatter:add@i64"}, use="accumulate=True")
    found.record("aten::put", [I64], {"scatter"}, use="accumulate=False")
    assert found.of("aten::put")[I64]["accumulate=True"].always == {"scatter:add@i64"}
    assert found.to_json() == {
        "aten::put": {
            "int64 accumulate=False": "scatter",
            "int64 accumulate=True": "scatter:add@i64",
        }
    }
    assert proofs.from_json(found.to_json()).to_json() == found.to_json()


def test_what_only_other_dtypes_use_counts_and_is_not_expressible(tmp_path):
    found = Proofs()
    found.record_use("aten::view_as_real_copy")
    proofs.write(found, tmp_path / "emitted.json")
    merged = Proofs()
    merged.merge(proofs.read(tmp_path / "emitted.json"))
    assert list(merged) == ["aten::view_as_real_copy"]
    assert merged.check_of("aten::view_as_real_copy") == proofs.OPERATOR_DATABASE
    assert not verdicts.is_expressible(merged, "aten::view_as_real_copy")


def test_newer_findings_by_use_replace_those_without():
    known, newer = Proofs(), Proofs()
    known.record("aten::put", [I64], {"scatter:add@i64"})
    newer.record("aten::put", [I64], {"scatter"}, use="accumulate=False")
    known.replace(newer)
    assert known.to_json() == newer.to_json()


def test_merging_adds_and_replacing_forgets():
    first, second = Proofs(), Proofs()
    first.record("aten::topk", [F32], {"sort"})
    first.record("aten::topk", [F16], {"sort"})
    second.record("aten::topk", [F32], {"top_k@f32"})
    merged, replaced = (proofs.from_json(first.to_json()) for _ in range(2))
    merged.merge(second)
    replaced.replace(second)
    assert merged.of("aten::topk")[F32][""].sometimes == {"sort", "top_k@f32"}
    assert replaced.of("aten::topk")[F32][""] == Proof(frozenset({"top_k@f32"}), has_programs=True)
    assert replaced.of("aten::topk")[F16][""].always == {"sort"}


def test_a_check_beside_the_operator_database_does_not_take_its_place():
    found = Proofs()
    found.record("aten::add", [F32], {"add"})
    found.record("aten::add", [F16], {"add"}, check="fusion")
    assert found.check_of("aten::add") == proofs.OPERATOR_DATABASE


def test_another_check_only_supplements():
    known, device = Proofs(), Proofs()
    known.record("aten::fill", [F32], {"constant"})
    device.record("aten::fill", [F32], {"broadcast_in_dim"}, check="device")
    device.record("aten::fill", [F16], {"broadcast_in_dim"}, check="device")
    device.record("aten::zero", [F32], {"constant"}, check="device")
    for _ in range(2):
        known.supplement(device)
    assert known.of("aten::fill")[F32][""].always == {"constant"}
    assert known.of("aten::fill")[F16][""].always == {"broadcast_in_dim"}
    assert known.check_of("aten::fill") == proofs.OPERATOR_DATABASE
    assert known.check_of("aten::zero") == "device"
