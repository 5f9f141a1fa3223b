"""A snapshot with what several sections of the report derive from it."""

from dataclasses import dataclass
from functools import cached_property
from posixpath import commonpath, dirname

from torch_trainium.neuron.timeline_view.elapsed import CoreTime, Elapsed, core_times, elapsed
from torch_trainium.neuron.timeline_view.records import TimelineSnapshot
from torch_trainium.neuron.timeline_view.roofline import Peaks
from torch_trainium.neuron.timeline_view.totals import busy_parts_ps, engine_busy_ps


@dataclass(frozen=True)
class View:
    """A scope of `steps` equal steps, on cores that reach `peaks` at most."""

    snapshot: TimelineSnapshot
    peaks: Peaks
    title: str
    steps: int

    @cached_property
    def items(self) -> list[Elapsed]:
        """Every record with its elapsed time."""
        return elapsed(self.snapshot)

    @cached_property
    def cores(self) -> dict[int, CoreTime]:
        """What each core did."""
        return core_times(self.snapshot)

    @cached_property
    def all_cores(self) -> CoreTime:
        """The sum over cores."""
        return sum(self.cores.values(), CoreTime())

    @cached_property
    def busy_parts_ps(self) -> dict[str, int]:
        """The cores' busy time by what they did."""
        return busy_parts_ps(self.items)

    @cached_property
    def engine_busy_ps(self) -> dict[str, int]:
        """How long each engine was busy, summed over cores."""
        return engine_busy_ps(self.snapshot.records)

    @cached_property
    def source_folder(self) -> str:
        """The innermost folder, "/" at its end, that all lines are below; "" if there is none."""
        lines = {record.line for record in self.snapshot.records}
        lines.update(line for f in self.snapshot.fallbacks.values() for line in f.lines)
        folders = {dirname(line) for line in lines if line.startswith("/")}
        return commonpath(folders).rstrip("/") + "/" if folders else ""

    @property
    def step_ps(self) -> int:
        """The time of one step, the host's part included."""
        return self.snapshot.duration_ps // self.steps

    def share(self, ps: int) -> float:
        """Of the cores' time, 0 to 1."""
        return ps / self.all_cores.span_ps if self.all_cores.span_ps else 0.0
