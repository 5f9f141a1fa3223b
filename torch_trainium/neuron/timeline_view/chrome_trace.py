"""A timeline as a trace that Perfetto and chrome://tracing open.

One process per logical core. Times are microseconds with nanosecond digits, counted from the
start of the scope, so that the same program gives the same bytes.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from torch_trainium.neuron.timeline_view.records import ENGINES, TimelineSnapshot, WorkRecord
from torch_trainium.neuron.timeline_view.totals import memory_over_time

Event = dict[str, Any]

PICOSECONDS_PER_NANOSECOND = 1000
NANOSECONDS_PER_MICROSECOND = 1000

HOST_ROW = 1
# A row for each queue that runs beside the compute engines; compute work has a row per engine.
QUEUE_ROWS = {"copy_in": 20, "copy_out": 21, "collective": 22}
QUEUE_ROW_NAMES = {
    "copy_in": "copies from the host",
    "copy_out": "copies to the host",
    "collective": "collectives",
}
FIRST_ENGINE_ROW = 10
ENGINE_ROW_NAMES = {
    "tensor": "tensor engine",
    "vector": "vector engine",
    "scalar": "scalar engine",
    "gpsimd": "GpSimd engine",
    "dma": "DMA",
    "collective": "collectives inside programs",
}
FIRST_STREAM_ROW = 100


@dataclass(frozen=True)
class _Clock:
    origin_ps: int

    def ns(self, ps: int) -> int:
        return (ps - self.origin_ps) // PICOSECONDS_PER_NANOSECOND

    def us(self, ps: int) -> float:
        return self.ns(ps) / NANOSECONDS_PER_MICROSECOND

    def between_us(self, start_ps: int, end_ps: int) -> float:
        # Of rounded ends, so that neighbours in a row touch and never overlap.
        return (self.ns(end_ps) - self.ns(start_ps)) / NANOSECONDS_PER_MICROSECOND


def export_chrome_trace(snapshot: TimelineSnapshot, path: str | PathLike[str]) -> None:
    """Write the trace to `path`, one event per line.

    Rows of a core: the host's issues, the engines, the queues of copies and collectives, and
    the streams. An arrow leads from each issue to the work on its stream. An engine's slice
    begins with the program it is part of and is as long as the engine is busy inside it: when
    within the program it was busy is not modelled.
    """
    head = {
        "displayTimeUnit": "ns",
        "otherData": {
            "instance": snapshot.instance,
            "chip": snapshot.chip,
            "logical_core_size": snapshot.logical_core_size,
            "profile": snapshot.profile,
            "times": "emulated by a cost model, not measured on a chip",
        },
    }
    with Path(path).open("w", encoding="utf-8") as file:
        file.write(f'{json.dumps(head)[:-1]}, "traceEvents": [')
        for number, event in enumerate(trace_events(snapshot)):
            file.write(f"{',' if number else ''}\n{json.dumps(event)}")
        file.write("\n]}\n")


def trace_events(snapshot: TimelineSnapshot) -> Iterator[Event]:
    """The events of the trace: names of rows, then work in order of issue, then memory."""
    clock = _Clock(snapshot.started_ps)
    yield from _names(snapshot)
    yield from _work(snapshot, clock)
    yield from _memory(snapshot, clock)


def _names(snapshot: TimelineSnapshot) -> Iterator[Event]:
    rows: dict[int, dict[int, str]] = {}
    for record in snapshot.records:
        names = rows.setdefault(record.device, {HOST_ROW: "host issue"})
        names[FIRST_STREAM_ROW + record.stream] = f"stream {record.stream}"
        if record.queue in QUEUE_ROWS:
            names[QUEUE_ROWS[record.queue]] = QUEUE_ROW_NAMES[record.queue]
        else:
            names.update(
                (FIRST_ENGINE_ROW + index, ENGINE_ROW_NAMES[engine])
                for index, engine in enumerate(ENGINES)
                if record.engine_ps[index]
            )
    for device in sorted(rows):
        yield _metadata(device, 0, "process_name", name=f"neuron:{device}")
        yield _metadata(device, 0, "process_labels", labels=f"{snapshot.chip} logical core")
        yield _metadata(device, 0, "process_sort_index", sort_index=device)
        for row in sorted(rows[device]):
            yield _metadata(device, row, "thread_name", name=rows[device][row])
            yield _metadata(device, row, "thread_sort_index", sort_index=row)


def _metadata(process: int, row: int, what: str, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": row, "args": args}


def _work(snapshot: TimelineSnapshot, clock: _Clock) -> Iterator[Event]:
    host_ps = dict.fromkeys((record.device for record in snapshot.records), snapshot.started_ps)
    by_issue = sorted(snapshot.records, key=lambda record: (record.issued_ps, record.start_ps))
    for number, record in enumerate(by_issue, start=1):
        stream_row = FIRST_STREAM_ROW + record.stream
        since_ps = max(host_ps[record.device], record.issued_ps - snapshot.issue_ps)
        yield from _issue(record, number, since_ps, clock)
        host_ps[record.device] = max(host_ps[record.device], record.issued_ps)
        yield _slice(record, stream_row, record.end_ps, clock) | {"args": _details(record)}
        if record.queue in QUEUE_ROWS:
            yield _slice(record, QUEUE_ROWS[record.queue], record.end_ps, clock)
        else:
            for index, busy_ps in enumerate(record.engine_ps):
                if busy_ps:
                    end_ps = record.start_ps + busy_ps
                    yield _slice(record, FIRST_ENGINE_ROW + index, end_ps, clock)


def _issue(record: WorkRecord, number: int, since_ps: int, clock: _Clock) -> Iterator[Event]:
    """The host's slice, which ends with the issue, and the arrow to the work."""
    since_ps = min(since_ps, record.issued_ps)
    begin_us = clock.us(since_ps)
    event = {"name": record.operator, "cat": "issue", "pid": record.device, "tid": HOST_ROW}
    duration_us = clock.between_us(since_ps, record.issued_ps)
    yield {"ph": "X", "ts": begin_us, "dur": duration_us} | event
    arrow = {"cat": "issue", "name": "issue", "id": number, "pid": record.device}
    # An arrow belongs to the slice around its time, which the end is no longer part of.
    yield {"ph": "s", "ts": begin_us, "tid": HOST_ROW} | arrow
    work = {"ts": clock.us(record.start_ps), "tid": FIRST_STREAM_ROW + record.stream}
    yield {"ph": "f", "bp": "e"} | work | arrow


def _slice(record: WorkRecord, row: int, end_ps: int, clock: _Clock) -> Event:
    return {
        "ph": "X",
        "ts": clock.us(record.start_ps),
        "dur": clock.between_us(record.start_ps, end_ps),
        "name": record.operator,
        "cat": record.cost_class,
        "pid": record.device,
        "tid": row,
    }


def _details(record: WorkRecord) -> dict[str, Any]:
    details: dict[str, Any] = {
        "bound": record.bound,
        "flops": record.flops,
        "hbm_bytes": record.hbm_bytes,
        "backward": record.is_backward,
    }
    if record.module:
        details["module"] = record.module
    if record.line:
        details["line"] = record.line
    return details


def _memory(snapshot: TimelineSnapshot, clock: _Clock) -> Iterator[Event]:
    for device, curve in memory_over_time(snapshot).items():
        for ps, allocated_bytes in curve:
            yield {
                "ph": "C",
                "ts": clock.us(ps),
                "name": "memory in use",
                "pid": device,
                "args": {"bytes": allocated_bytes},
            }
