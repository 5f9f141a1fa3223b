"""What a conformance case is and what can come of it."""

from __future__ import annotations

import enum
import fnmatch
from dataclasses import asdict, dataclass, field
from typing import Any


class Status(enum.StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    SKIPPED = "skipped"
    EXPECTED = "expected failure"
    UNEXPECTED_PASS = "unexpected pass"


FAILURES = (Status.FAILED, Status.CRASHED, Status.TIMED_OUT, Status.UNEXPECTED_PASS)


@dataclass(frozen=True, order=True)
class Case:
    """One (suite, check, name, dtype); `dtype` is "-" where a check has none."""

    suite: str
    name: str
    check: str
    dtype: str = "-"

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.check}/{self.name}/{self.dtype}"

    def matches(self, pattern: str) -> bool:
        return fnmatch.fnmatchcase(self.id, pattern)


class Skip(Exception):
    """Raised by a check that finds nothing to check; the text says why."""


@dataclass
class Result:
    """The outcome of a case: its samples, what went wrong in them, and whether all bits agreed.

    `findings` is whatever else a suite wants to know of it, as JSON has it.
    """

    case: Case
    status: Status = Status.PASSED
    samples: int = 0
    failures: list[str] = field(default_factory=list)
    bit_equal: bool = True
    reason: str = ""
    findings: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def fail(self, message: str) -> None:
        self.status = Status.FAILED
        self.failures.append(message)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Result:
        fields = dict(data)
        fields["case"] = Case(**fields["case"])
        fields["status"] = Status(fields["status"])
        return cls(**fields)
