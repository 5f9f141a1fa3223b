"""What the virtual timeline hands over: one record per unit of device work, and the totals.

All times are integer picoseconds of the device's virtual clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

# The order of `WorkRecord.engine_ps`, which is that of `Engine` in csrc/timeline.
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "dma", "collective")
QUEUES = ("compute", "copy_in", "copy_out", "collective")
# What sets the time of a unit of work: an engine, the host that computes it, or "launch" where
# asking for it and launching it take longer than its engines.
BOUNDS = ("launch", *ENGINES, "host")

PICOSECONDS_PER_SECOND = 10**12


class WorkRecord(NamedTuple):
    """One unit of device work: an eager operator, a compiled program, a copy or a collective."""

    operator: str
    cost_class: str
    device: int
    stream: int
    queue: str
    issued_ps: int
    start_ps: int
    end_ps: int
    engine_ps: tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0)
    flops: int = 0  # a multiply-add is 2
    hbm_bytes: int = 0  # read and written
    bound: str = "launch"
    module: str = ""  # qualified, such as "layers.0.mlp"; "" outside modules
    line: str = ""  # of the user's program, such as "train.py:12 (step)"
    is_backward: bool = False
    allocated_bytes: int = 0  # device memory in use when it was issued

    @property
    def duration_ps(self) -> int:
        """How long it occupies its queue."""
        return self.end_ps - self.start_ps


class Span(NamedTuple):
    """From the opening to the closing of a scope, on one device."""

    started_ps: int
    ended_ps: int


class OperatorTotal(NamedTuple):
    """What one operator came to since the start of the process or the last reset."""

    calls: int
    device_ps: int
    launch_bound_calls: int


class Fallback(NamedTuple):
    """An operator that the chip has no program for, so that the host computes it."""

    calls: int
    ps: int
    lines: Sequence[str] = ()
    reason: str = ""


@dataclass(frozen=True)
class TimelineSnapshot:
    """A stretch of the virtual timeline, on the emulated machine it belongs to."""

    instance: str
    chip: str
    logical_core_size: int
    profile: str
    records: Sequence[WorkRecord] = ()
    spans: Mapping[int, Span] = field(default_factory=dict)
    operators: Mapping[str, OperatorTotal] = field(default_factory=dict)
    fallbacks: Mapping[str, Fallback] = field(default_factory=dict)
    issue_ps: int = 0  # host time that asking for one unit of work takes

    @property
    def started_ps(self) -> int:
        """When the first device's span began; 0 without devices."""
        return min((span.started_ps for span in self.spans.values()), default=0)

    @property
    def ended_ps(self) -> int:
        """When the last device's span ended; 0 without devices."""
        return max((span.ended_ps for span in self.spans.values()), default=0)

    @property
    def duration_ps(self) -> int:
        """From the first start to the last end over all devices."""
        return self.ended_ps - self.started_ps
