"""Where the time of a scope went: each instant of a core belongs to one unit of work.

A core's span is cut at the ends of its work, in the order in which work starts. What lies
between the latest end so far and the end of the next work is that work's *elapsed* time: the
part in which the core did it, after the part in which the core had nothing to do and waited
for it. So the elapsed times of a core and its tail after the last work add up to its span
exactly, which busy times do not where queues overlap or the host is slower than the device.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch_trainium.neuron.timeline_view.records import Span, TimelineSnapshot, WorkRecord


class Elapsed(NamedTuple):
    """A unit of work and the time for which its core has it to thank."""

    record: WorkRecord
    issue_wait_ps: int  # the core was idle and the host had not issued it
    launch_wait_ps: int  # the core was idle and it was issued: launching, or waiting for others
    busy_ps: int  # the core did it, and nothing that started earlier

    @property
    def total_ps(self) -> int:
        """Waiting and doing."""
        return self.issue_wait_ps + self.launch_wait_ps + self.busy_ps


@dataclass(frozen=True)
class CoreTime:
    """The span of one core, or the sum over several, by what the core did."""

    span_ps: int = 0
    busy_ps: int = 0
    issue_wait_ps: int = 0
    launch_wait_ps: int = 0
    launch_bound_ps: int = 0  # waiting for and doing work that is launch-bound
    tail_ps: int = 0  # after the last work, such as the host's way back from a synchronization

    @property
    def idle_ps(self) -> int:
        """The span without the busy part."""
        return self.span_ps - self.busy_ps

    def __add__(self, other: "CoreTime") -> "CoreTime":
        return CoreTime(
            self.span_ps + other.span_ps,
            self.busy_ps + other.busy_ps,
            self.issue_wait_ps + other.issue_wait_ps,
            self.launch_wait_ps + other.launch_wait_ps,
            self.launch_bound_ps + other.launch_bound_ps,
            self.tail_ps + other.tail_ps,
        )


def elapsed(snapshot: TimelineSnapshot) -> list[Elapsed]:
    """Every record of the snapshot with its elapsed time, core by core in order of start."""
    return [
        item
        for device, records in _by_device(snapshot.records).items()
        for item in _elapsed_on_core(records, snapshot.spans[device].started_ps)
    ]


def core_times(snapshot: TimelineSnapshot) -> dict[int, CoreTime]:
    """What each core that had work did over its span."""
    times = {}
    for device, records in _by_device(snapshot.records).items():
        span = snapshot.spans[device]
        items = list(_elapsed_on_core(records, span.started_ps))
        times[device] = CoreTime(
            span_ps=span.ended_ps - span.started_ps,
            busy_ps=sum(item.busy_ps for item in items),
            issue_wait_ps=sum(item.issue_wait_ps for item in items),
            launch_wait_ps=sum(item.launch_wait_ps for item in items),
            launch_bound_ps=sum(item.total_ps for item in items if item.record.bound == "launch"),
            tail_ps=_tail_ps(items, span),
        )
    return times


def _tail_ps(items: Iterable[Elapsed], span: Span) -> int:
    return span.ended_ps - span.started_ps - sum(item.total_ps for item in items)


def _by_device(records: Iterable[WorkRecord]) -> Mapping[int, Sequence[WorkRecord]]:
    groups: dict[int, list[WorkRecord]] = defaultdict(list)
    for record in records:
        groups[record.device].append(record)
    return {device: groups[device] for device in sorted(groups)}


def _elapsed_on_core(records: Iterable[WorkRecord], started_ps: int) -> Iterator[Elapsed]:
    frontier_ps = started_ps
    for record in sorted(records, key=lambda record: (record.start_ps, record.end_ps)):
        idle_until_ps = max(frontier_ps, record.start_ps)
        issued_ps = min(max(frontier_ps, record.issued_ps), idle_until_ps)
        end_ps = max(idle_until_ps, record.end_ps)
        yield Elapsed(
            record,
            issue_wait_ps=issued_ps - frontier_ps,
            launch_wait_ps=idle_until_ps - issued_ps,
            busy_ps=end_ps - idle_until_ps,
        )
        frontier_ps = end_ps
