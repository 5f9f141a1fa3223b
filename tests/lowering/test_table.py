"""The operator table, and what is generated from it."""

import pytest
import torch

from torch_trainium.lowering import __main__, legality, proofs, table, verdicts, written
from torch_trainium.lowering.proofs import Proofs
from torch_trainium.lowering.verdicts import judge

F32, I64, F64 = torch.float32, torch.int64, torch.float64
TRN2 = legality.rules("trn2")


def row(name: str) -> table.Row:
    return next(row for row in table.rows() if row.name == name)


def test_generated_files_are_current():
    assert not written.outdated(), "run python -m torch_trainium.lowering --write"


def test_check_fails_where_a_file_is_not_current(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(written, "CLASSIFICATION", tmp_path / "classification.tsv")
    monkeypatch.setattr("sys.argv", ["lowering", "--check"])
    assert __main__.main() == 1
    assert "--write" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::view", "view"),
        ("aten::t_", "view"),
        ("aten::as_strided", "view"),
        ("aten::resize_", "storage"),
        ("aten::set_.source_Storage", "storage"),
        ("aten::empty.memory_format", "storage"),
        ("aten::__iand__.Tensor", "composite"),
        ("aten::add_.Tensor", "operator"),
    ],
)
def test_kinds(name, kind):
    assert row(name).kind == kind


@pytest.mark.parametrize(
    "name", ["aten::ones_like", "aten::randn", "aten::full_like", "aten::clone", "aten::matmul"]
)
def test_what_pytorch_makes_of_other_operators_is_a_composite(name):
    assert row(name).kind == "composite"


def test_writing_forms_have_the_functional_ones_proofs():
    for name in ("aten::add_.Tensor", "aten::add.out", "aten::add.Tensor"):
        assert row(name).proven_as == "aten::add.Tensor"


def test_an_overload_with_the_same_lowering_is_proven_with_it():
    assert row("aten::convolution_overrideable").proven_as == "aten::convolution"


def test_proofs_of_the_same_lowering_hold_for_dtypes_without_one_of_their_own():
    found = Proofs()
    found.record("aten::gt.Scalar", [torch.float32], ["sort"])
    for dtype in (torch.float32, torch.int64):
        found.record("aten::gt.Tensor", [dtype], ["compare"])
    judged = verdicts.judge(found, "aten::gt.Scalar", legality.rules("trn2"), ("aten::gt.Tensor",))
    assert judged.native == {torch.int64}
    assert set(judged.refused) == {torch.float32}
    assert "aten::gt.Tensor" in row("aten::gt.Scalar").same


def test_an_operator_without_a_proof_is_not_native():
    unproven = [row for row in table.rows() if row.kind == "operator" and not row.proven_as]
    assert unproven
    assert all(row.is_fallback(target) for row in unproven for target in legality.TARGETS)


def test_what_is_always_refused_makes_a_fallback():
    found = Proofs()
    found.record("aten::sort", [F32], {"sort", "iota"})
    verdict = judge(found, "aten::sort", TRN2)
    assert not verdict.native
    assert "torch.topk" in verdict.reason


def test_a_use_that_an_argument_tells_apart_is_refused_alone():
    found = Proofs()
    found.record("aten::put", [I64], {"scatter:add@i64"}, use="accumulate=True")
    found.record("aten::put", [I64], {"scatter"}, use="accumulate=False")
    verdict = judge(found, "aten::put", TRN2)
    assert verdict.native == {I64}
    assert "NCC_EVRF016" in verdict.refused_uses["accumulate=True"][I64]
    assert not verdict.is_native


def test_an_operator_that_is_refused_for_every_use_is_a_fallback():
    found = Proofs()
    for reduce in ("sum", "prod"):
        found.record("aten::index_reduce", [I64], {f"scatter:{reduce}@i64"}, use=f"reduce={reduce}")
    verdict = judge(found, "aten::index_reduce", TRN2)
    assert not verdict.native
    assert "NCC_EVRF016" in verdict.reason


def test_a_use_that_nothing_tells_apart_makes_a_fallback():
    found = Proofs()
    found.record("aten::convolution", [F32], {"convolution:stride"})
    found.record("aten::convolution", [F32], {"convolution:input_dilation+kernel_dilation"})
    assert "NCC_EVRF010" in judge(found, "aten::convolution", TRN2).refused[F32]


def test_a_use_that_all_programs_have_makes_a_fallback():
    found = Proofs()
    found.record("aten::mm", [I64], {"dot_general@i64"})
    assert "NCC_EVRF035" in judge(found, "aten::mm", TRN2).refused[I64]


def test_an_element_type_used_inside_makes_a_fallback():
    found = Proofs()
    found.record("aten::logcumsumexp", [F32, F32], {"add", "@f64"})
    found.record("aten::logcumsumexp", [F32, F32], {"add"})
    assert "float64" in judge(found, "aten::logcumsumexp", TRN2).refused[F32]


def test_dtypes_that_do_not_exist_are_not_counted_against_an_operator():
    found = Proofs()
    found.record("aten::add", [F32], {"add"})
    found.record("aten::add", [F64], {"add"})
    verdict = judge(found, "aten::add", TRN2)
    assert verdict.is_native
    assert verdict.native == {F32}


def test_samples_without_a_program_are_a_limit_and_not_expressible():
    found = Proofs()
    found.record("aten::index.Tensor", [F32], {"gather"})
    found.record_problem("aten::index.Tensor", [F32], "a mask's size depends on the data")
    assert judge(found, "aten::index.Tensor", TRN2).problems == (
        "a mask's size depends on the data",
    )
    assert not verdicts.is_expressible(found, "aten::index.Tensor")


def test_a_wrong_program_is_expressible_and_not_native():
    found = Proofs()
    found.record("aten::lgamma", [F32], {"log"})
    found.record_problem("aten::lgamma", [F32], proofs.DIFFERS)
    assert verdicts.is_expressible(found, "aten::lgamma")
    assert not judge(found, "aten::lgamma", TRN2).is_native


def test_an_operator_made_of_others_is_native_where_they_are():
    found = Proofs()
    found.record("aten::count_nonzero", [F32], {"reduce:add"})
    found.record("aten::nonzero_static", [F32], {"scatter"})
    found.record("aten::index_select", [I64], {"gather"})
    found.record_composition("aten::nonzero", ["aten::count_nonzero", "aten::nonzero_static"])
    found.record_composition("aten::unique", ["aten::nonzero_static", "aten::sort"])
    assert judge(found, "aten::nonzero", TRN2).native == {F32}
    assert not judge(found, "aten::unique", TRN2).native
    found.record("aten::sort", [F32], {"sort"})
    assert "NCC_EVRF029" in judge(found, "aten::unique", TRN2).refused[F32]
    assert verdicts.is_expressible(found, "aten::unique")


def test_shares_are_rounded_down():
    assert written._share(9999, 10000) == "9999 (99.9 %)"
