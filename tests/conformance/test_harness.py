"""The harness must notice what it is there to notice."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import pytest
import torch
from torch.testing._internal.opinfo.core import SampleInput

from tests.conformance import report
from tests.conformance.case import Case, Result, Skip, Status
from tests.conformance.checks.inputs import call
from tests.conformance.checks.variants import out, view
from tests.conformance.differential import Differential
from tests.conformance.expectations import Expectation, judge, load, unused
from tests.conformance.mirror import Mirror
from tests.conformance.pool import run_case, run_cases

CASE = Case("ops", "example", "forward", "float32")


def differ(subject: Any, reference: Any, *inputs: Any, probe: Any = call, **options: Any) -> Result:
    """Compares `subject` with `reference`, both on the CPU, for one sample."""

    def body(case: Case, result: Result) -> None:
        sample = SampleInput(inputs[0], args=tuple(inputs[1:]))
        Differential(result, "cpu", subject, reference, **options).run([sample], probe)

    return run_case(CASE, body)


def test_agreement_passes_and_is_bit_equal() -> None:
    result = differ(torch.exp, torch.exp, torch.randn(5))
    assert result.status is Status.PASSED
    assert result.bit_equal
    assert result.samples == 1


def test_a_wrong_value_fails() -> None:
    result = differ(lambda x: x.exp() * 1.001, torch.exp, torch.randn(5))
    assert result.status is Status.FAILED
    assert "not close" in result.failures[0]


def test_a_value_within_tolerance_passes_but_is_not_bit_equal() -> None:
    result = differ(lambda x: x.exp() * (1 + 2e-7), torch.exp, torch.ones(5))
    assert result.status is Status.PASSED
    assert not result.bit_equal


def test_a_nan_in_place_of_a_number_fails() -> None:
    result = differ(lambda x: x * float("nan"), torch.exp, torch.ones(1))
    assert result.status is Status.FAILED


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (lambda x: (x + 1).double(), "dtype"),
        (lambda x: (x + 1).reshape(1, 2, 3), "shape"),
        (lambda x: (x + 1).t().contiguous().t(), "stride"),
        (lambda x: (x + 1).to_sparse(), "layout"),
        (lambda x: (x + 1).requires_grad_(), "requires_grad"),
        (lambda x: (x + 1).to("meta"), "on meta"),
        (lambda x: [x + 1], "a list"),
        (lambda x: torch.neg(x + 1)._neg_view(), "negative bit"),
    ],
)
def test_wrong_metadata_fails(subject: Any, message: str) -> None:
    result = differ(subject, lambda x: x + 1, torch.randn(2, 3))
    assert result.status is Status.FAILED
    assert message in result.failures[0]


def test_an_output_that_should_be_a_view_and_is_a_copy_fails() -> None:
    inputs = torch.randn(2, 3)
    result = differ(lambda x: x.clone().view(6), lambda x: x.view(6), inputs, aliasing=True)
    assert result.status is Status.FAILED
    assert "alias" in result.failures[0]


def test_a_write_through_a_lost_view_fails() -> None:
    def lost(x: torch.Tensor) -> torch.Tensor:
        return x.clone().view(6)

    result = differ(lost, lambda x: x.view(6), torch.randn(2, 3), probe=view)
    assert result.status is Status.FAILED


def test_a_changed_input_fails() -> None:
    result = differ(lambda x: x.add_(1), lambda x: x + 1, torch.randn(3), inputs_after=True)
    assert result.status is Status.FAILED
    assert "inputs after the call" in result.failures[0]


def test_an_error_of_another_class_fails() -> None:
    def wrong(x: torch.Tensor) -> None:
        raise ValueError("no")

    def right(x: torch.Tensor) -> None:
        raise IndexError("no")

    assert differ(wrong, right, torch.ones(1)).status is Status.FAILED
    assert differ(wrong, torch.exp, torch.ones(1)).status is Status.FAILED
    assert differ(torch.exp, right, torch.ones(1)).status is Status.FAILED
    assert differ(right, right, torch.ones(1)).status is Status.SKIPPED


def test_an_out_argument_that_is_not_resized_fails() -> None:
    def stubborn(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        if out is not None and out.shape != x.shape:
            raise RuntimeError("wrong size")
        return torch.exp(x, out=out)

    result = differ(stubborn, torch.exp, torch.randn(3), probe=out)
    assert result.status is Status.FAILED
    assert "empty" in result.failures[0]


def test_random_values_may_differ_but_not_their_shape() -> None:
    def uneven(x: torch.Tensor) -> torch.Tensor:
        torch.rand(1)
        return torch.rand_like(x)

    assert differ(uneven, torch.rand_like, torch.empty(20)).status is Status.PASSED
    wrong = differ(lambda x: torch.rand(3, 3), torch.rand_like, torch.empty(20))
    assert wrong.status is Status.FAILED


def test_random_values_that_ignore_the_seed_fail() -> None:
    generator = torch.Generator()

    def unseeded(x: torch.Tensor) -> torch.Tensor:
        return torch.rand(x.shape, generator=generator)

    result = differ(unseeded, torch.rand_like, torch.empty(20))
    assert result.status is Status.FAILED
    assert any("same seed" in failure for failure in result.failures)

    constant = differ(lambda x: torch.zeros(20), torch.rand_like, torch.empty(20))
    assert any("another seed" in failure for failure in constant.failures)


def test_no_samples_is_a_skip_and_not_a_pass() -> None:
    def body(case: Case, result: Result) -> None:
        Differential(result, "cpu", torch.exp).run([], call)

    assert run_case(CASE, body).status is Status.SKIPPED


def test_a_mirror_keeps_strides_offsets_and_shared_storage() -> None:
    base = torch.randn(4, 6)
    column, whole = base[1:, 2], base
    mirror = Mirror("cpu", "cpu")
    copies = mirror([column, whole, column])
    assert copies[0] is copies[2]
    assert copies[0].stride() == column.stride()
    assert copies[0].storage_offset() == column.storage_offset()
    copies[0].zero_()
    assert copies[1][1:, 2].eq(0).all()
    assert not base[1:, 2].eq(0).any()


def test_a_mirror_keeps_lazy_conjugation_and_gradients() -> None:
    value = torch.randn(3, dtype=torch.complex64).conj()
    copied = Mirror("cpu", "cpu")(value)
    assert copied.is_conj()
    assert torch.equal(copied, value)
    assert Mirror("cpu", "cpu")(torch.ones(2, requires_grad=True)).requires_grad


def _misbehave(how: str, case: Case, result: Result) -> None:
    result.samples += 1
    if case.name != "bad":
        return
    if how == "abort":
        os.abort()
    elif how == "exit":
        os._exit(3)
    elif how == "hang":
        time.sleep(60)
    else:
        raise RuntimeError("broken check")


@pytest.mark.parametrize(
    ("how", "status", "message"),
    [
        ("abort", Status.CRASHED, "SIGABRT"),
        ("exit", Status.CRASHED, "exited with 3"),
        ("hang", Status.TIMED_OUT, "no answer"),
        ("raise", Status.FAILED, "broken check"),
    ],
)
def test_a_dying_case_costs_only_itself(how: str, status: Status, message: str) -> None:
    cases = [Case("ops", name, "forward") for name in ("a", "b", "bad", "c", "d")]
    runner = partial(_misbehave, how)
    results = {r.case.name: r for r in run_cases(cases, runner, jobs=1, timeout_seconds=1.5)}
    assert set(results) == {"a", "b", "bad", "c", "d"}
    assert results["bad"].status is status
    assert message in results["bad"].failures[0]
    others = [result.status for name, result in results.items() if name != "bad"]
    assert others == [Status.PASSED] * 4


def test_a_crash_is_reported_with_its_stack() -> None:
    cases = [Case("ops", "bad", "forward")]
    (result,) = run_cases(cases, partial(_misbehave, "abort"), jobs=1)
    assert "_misbehave" in result.failures[0]


ROW = Expectation(("ops/forward/example/*",), "wants a CPU index", "by PyTorch's design", "0.1.0")


def test_an_expected_failure_is_counted_apart() -> None:
    result = Result(CASE)
    result.fail("sample 0: it wants a CPU index")
    assert judge(result, [ROW]).status is Status.EXPECTED


def test_an_expected_failure_that_fails_in_another_way_fails() -> None:
    result = Result(CASE)
    result.fail("sample 0: it wants a CPU index")
    result.fail("sample 1: wrong value")
    assert judge(result, [ROW]).status is Status.FAILED
    crashed = Result(CASE, Status.CRASHED, failures=["wants a CPU index"])
    assert judge(crashed, [ROW]).status is Status.CRASHED


def test_an_expected_failure_that_passes_is_an_error() -> None:
    judged = judge(Result(CASE), [ROW])
    assert judged.status is Status.UNEXPECTED_PASS
    assert report.render([judged], "cpu").count("it passes") == 1


def test_an_expectation_that_matches_nothing_is_found() -> None:
    assert unused([ROW], [Case("ops", "other", "forward", "float32")]) == list(ROW.cases)
    assert unused([ROW], [CASE]) == []


def test_the_list_of_expected_failures_gives_reasons(tmp_path: Any) -> None:
    assert all(row.reason and row.since for row in load())
    path = tmp_path / "expected.toml"
    path.write_text(
        '[[expected]]\ncases = ["a"]\nmessage = "b"\nreason = "Not implemented yet"\nsince = "0"\n'
    )
    with pytest.raises(ValueError, match="needs a reason"):
        load(path)


def test_the_report_counts_statuses_apart() -> None:
    statuses = [Status.PASSED, Status.SKIPPED, Status.EXPECTED, Status.CRASHED, Status.FAILED]
    results = [Result(Case("ops", f"op{i}", "forward"), s) for i, s in enumerate(statuses)]
    text = report.render(results, "cpu")
    assert "**1 of 4 cases pass (25.00 %)**" in text
    assert "| ops | forward | 1 | 1 | 1 | 1 | 1 |" in text
    assert "**F!**" in text
    assert "A part only" not in text
    assert "**A part only: 5 of 9 cases were run.**" in report.render(results, "cpu", cases=9)


def test_skipping_is_an_outcome_of_a_case() -> None:
    def body(case: Case, result: Result) -> None:
        raise Skip("nothing to see")

    result = run_case(CASE, body)
    assert (result.status, result.reason) == (Status.SKIPPED, "nothing to see")
