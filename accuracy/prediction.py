"""What the mapping makes of a row: a workload to evaluate, or the reason why there is none."""

from dataclasses import dataclass

from accuracy.measure import Measure
from accuracy.rows import Row
from accuracy.workload import Workload


@dataclass(frozen=True)
class Target:
    """Where a workload runs, by names that the cost model knows."""

    chip: str
    logical_core_size: int
    profile: str


@dataclass(frozen=True)
class Prediction:
    """A row, the workload that it timed and how it counts.

    `family` names the finer kind that errors are reported by. Rows of equal `configuration`
    are versions of one thing; the best of them is scored.
    """

    row: Row
    target: Target
    family: str
    workload: Workload
    measure: Measure
    configuration: tuple[object, ...]


@dataclass(frozen=True)
class Excluded:
    """A row that is not predicted, by the rule with this reason."""

    row: Row
    reason: str
