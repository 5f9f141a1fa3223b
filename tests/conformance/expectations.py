"""The list of expected failures: the only place where a case may be excused, each with a reason."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from .case import Case, Result, Status

PATH = Path(__file__).with_name("expected_failures.toml")


@dataclass(frozen=True)
class Expectation:
    """Every case that matches a pattern fails, and each failing sample's message says why.

    `may_pass`: the CPU's own results differ from run to run, so that they also agree by chance.
    """

    cases: tuple[str, ...]
    message: str
    reason: str
    since: str
    may_pass: bool = False


def load(path: Path = PATH) -> list[Expectation]:
    with path.open("rb") as file:
        rows = tomllib.load(file).get("expected", [])
    expectations = [Expectation(**{**row, "cases": tuple(row["cases"])}) for row in rows]
    for expectation in expectations:
        if not expectation.reason.strip() or "not implemented yet" in expectation.reason.lower():
            raise ValueError(f"{path.name}: {expectation.cases[0]} needs a reason")
    return expectations


def judge(result: Result, expectations: Iterable[Expectation]) -> Result:
    """The result with the expected failures taken into account; a listed case must fail."""
    expectation = _find(result.case, expectations)
    if expectation is None or result.status is Status.SKIPPED:
        return result
    if result.status is Status.PASSED and expectation.may_pass:
        return result
    if result.status is Status.PASSED:
        message = f"listed as an expected failure ({expectation.reason}), but it passes"
        return replace(result, status=Status.UNEXPECTED_PASS, failures=[message])
    if result.status is Status.FAILED and all(
        re.search(expectation.message, failure) for failure in result.failures
    ):
        return replace(result, status=Status.EXPECTED, reason=expectation.reason)
    return result


def unused(expectations: Iterable[Expectation], cases: Iterable[Case]) -> list[str]:
    """Patterns that match no case any more."""
    cases = list(cases)
    patterns = [pattern for row in expectations for pattern in row.cases]
    return [pattern for pattern in patterns if not any(case.matches(pattern) for case in cases)]


def _find(case: Case, expectations: Iterable[Expectation]) -> Expectation | None:
    return next((row for row in expectations if any(map(case.matches, row.cases))), None)
