"""Writes docs/lowering_conformance.md from the results of the cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import fill

import torch

from tests.conformance.case import FAILURES, Result, Status
from tests.conformance.report import listed, samples_by_dtype


def render(
    results: Sequence[Result],
    overloads: dict[str, Counter[str]],
    other_dtypes: Sequence[str],
    other_samples: int,
    command: str,
) -> str:
    """The document.

    Args:
        results: of all cases.
        overloads: how many calls of each "passed", "failed", and so on.
        other_dtypes: those that no chip has.
        other_samples: how many samples of an operator were run in those.
        command: what writes the document.

    """
    done = [result for result in results if result.status is not Status.SKIPPED]
    native = [result for result in done if result.case.dtype not in other_dtypes]
    others = [result for result in done if result.case.dtype in other_dtypes]
    expected = [result for result in results if result.status is Status.EXPECTED]
    failed = [result for result in results if result.status in FAILURES]
    calls = sum(count["passed"] for count in overloads.values())
    as_accurate = sum(count["as accurate"] for count in overloads.values())
    crashed = sum(result.status is Status.CRASHED for result in results)
    beside = of_others = ""
    if others:
        of_others = f", {_passed(others)} in the others"
        names = " and ".join(other_dtypes)
        beside = f", and the first {other_samples} of each operator in {names}, which no chip has"
    paragraphs = [
        f"""Written by `{command}`; do not edit. The samples of PyTorch
        {torch.__version__.partition("+")[0]}'s operator database run on the device in compiled
        eager, forward and backward, in every dtype that both chips compute in{beside}. Each ATen
        operator in them, its in-place and `out=` forms too, is compared with the CPU's on the same
        arguments: values, dtype, shape, strides and what it leaves in its arguments. A case is an
        operator of the database in one dtype; it passes where every call in it agrees. An operator
        that would run on the CPU fails its case. Cases run in forked workers, so that a crash is
        counted and costs one case.""",
        """Values agree within `torch.testing.assert_close`'s tolerance for the dtype, or as
        PyTorch's own comparison of compilers has it (`torch._dynamo.utils.same`): as near to the
        result in float64 as the CPU's is. Random numbers are compared in
        `tests/lowering/test_random.py`.""",
        f"""**{_passed(native)} in the chips' dtypes**{of_others}.
        {len(expected)} fail for the reasons below, {len(failed)} fail otherwise, {crashed} crashed.
        They call {len(overloads)} overloads {calls} times with agreeing results, {as_accurate} of
        them by the second rule.""",
    ]
    return "\n".join(
        [
            "# Conformance of the lowering\n",
            *(fill(" ".join(text.split()), 100) + "\n" for text in paragraphs),
            samples_by_dtype(results),
            listed("Expected failures", expected),
            listed("Failures", failed),
        ]
    )


def _passed(results: Sequence[Result]) -> str:
    passed = sum(result.status is Status.PASSED for result in results)
    share = 10_000 * passed // max(1, len(results)) / 100  # never rounded up
    return f"{passed} of {len(results)} cases pass ({share:.2f} %)"
