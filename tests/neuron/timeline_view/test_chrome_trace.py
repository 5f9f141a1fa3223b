"""The trace for Perfetto: valid events, rows, arrows, nanoseconds, the same bytes each time."""

import json
from collections import defaultdict
from itertools import pairwise

import pytest

from tests.neuron.timeline_view.example import US, snapshot, transformer, work
from torch_trainium.neuron.timeline_view.chrome_trace import export_chrome_trace, trace_events

NUMBER = (int, float)
# What the Trace Event Format requires of each phase that we write.
SCHEMA = {
    "X": {"name": str, "cat": str, "ts": NUMBER, "dur": NUMBER, "pid": int, "tid": int},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
    "s": {"name": str, "cat": str, "id": int, "ts": NUMBER, "pid": int, "tid": int},
    "f": {"name": str, "cat": str, "id": int, "ts": NUMBER, "pid": int, "tid": int, "bp": str},
    "C": {"name": str, "ts": NUMBER, "pid": int, "args": dict},
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    export_chrome_trace(transformer(devices=2), path)
    return json.loads(path.read_text())


def rows(events):
    """(device, row name) -> its slices in order of time."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], names[event["pid"], event["tid"]]].append(event)
    return {row: sorted(slices, key=lambda e: e["ts"]) for row, slices in found.items()}


def ns(microseconds):
    return round(microseconds * 1000)


def test_every_event_has_what_its_phase_requires(trace):
    for event in trace["traceEvents"]:
        schema = SCHEMA[event["ph"]]
        assert schema.keys() <= event.keys(), event
        assert all(isinstance(event[key], kind) for key, kind in schema.items()), event
        assert event.keys() <= {*schema, "ph", "args"}, event
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0, event


def test_each_core_is_a_process_with_its_rows(trace):
    names = {
        e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"
    }
    assert names == {0: "neuron:0", 1: "neuron:1"}
    assert {name for device, name in rows(trace["traceEvents"]) if device == 1} == {
        "host issue",
        "tensor engine",
        "vector engine",
        "scalar engine",
        "DMA",
        "copies from the host",
        "stream 0",
    }


def test_slices_of_a_row_do_not_overlap(trace):
    for slices in rows(trace["traceEvents"]).values():
        for before, after in pairwise(slices):
            assert ns(before["ts"] + before["dur"]) <= ns(after["ts"]), (before, after)


def test_times_are_nanoseconds_of_the_virtual_clock():
    records = [work("a", 0, 1)._replace(start_ps=1_234_567_900, end_ps=2_234_568_100)]
    (event,) = rows([*trace_events(snapshot(records))])[0, "stream 0"]
    assert (event["ts"], event["dur"]) == (1234.567, 1000.001)


def test_arrows_lead_from_the_issue_to_the_work(trace):
    slices = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append(event)

    def around(arrow):
        return [
            e["name"]
            for e in slices[arrow["pid"], arrow["tid"]]
            if ns(e["ts"]) <= ns(arrow["ts"]) < ns(e["ts"] + e["dur"])
        ]

    starts = {e["id"]: around(e) for e in trace["traceEvents"] if e["ph"] == "s"}
    ends = {e["id"]: around(e) for e in trace["traceEvents"] if e["ph"] == "f"}
    assert starts == ends
    assert len(starts) == len(transformer(devices=2).records)
    assert all(len(names) == 1 for names in starts.values())


def test_host_is_busy_only_while_it_issues():
    records = [work("a", 50, 60, issued_us=40), work("b", 210, 220, issued_us=200)]
    slices = rows([*trace_events(snapshot(records, issue_ps=30 * US))])[0, "host issue"]
    assert [(e["ts"], e["dur"]) for e in slices] == [(10, 30), (170, 30)]


def test_engines_are_busy_for_their_part_of_the_program():
    records = [work("mm", 3, 9, engines={"tensor": 6, "dma": 2}, cost_class="matmul")]
    found = rows([*trace_events(snapshot(records))])
    assert [(e["ts"], e["dur"]) for e in found[0, "tensor engine"]] == [(3, 6)]
    assert [(e["ts"], e["dur"]) for e in found[0, "DMA"]] == [(3, 2)]
    assert (0, "vector engine") not in found


def test_copies_and_collectives_have_rows_beside_the_engines():
    records = [
        work("mm", 0, 10, engines={"tensor": 10, "dma": 8}),
        work("copy", 2, 5, queue="copy_out", stream=1, engines={"dma": 3}),
        work(
            "all_reduce", 3, 12, queue="collective", stream=2, engines={"collective": 9, "dma": 4}
        ),
    ]
    found = rows([*trace_events(snapshot(records))])
    assert {name: [e["name"] for e in slices] for (_, name), slices in found.items()} == {
        "host issue": ["mm", "copy", "all_reduce"],
        "tensor engine": ["mm"],
        "DMA": ["mm"],
        "copies to the host": ["copy"],
        "collectives": ["all_reduce"],
        "stream 0": ["mm"],
        "stream 1": ["copy"],
        "stream 2": ["all_reduce"],
    }


def test_memory_is_a_counter():
    records = [
        work("a", 5, 6, issued_us=1, allocated_bytes=10),
        work("b", 6, 7, issued_us=2, allocated_bytes=30),
    ]
    events = trace_events(snapshot(records))
    counters = [(e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert counters == [(1, {"bytes": 10}), (2, {"bytes": 30})]


def test_same_program_gives_the_same_bytes_whenever_it_runs(tmp_path):
    early = [work("a", 5, 6, issued_us=1, flops=3), work("b", 6, 9)]
    late = [
        r._replace(
            issued_ps=r.issued_ps + 7 * US, start_ps=r.start_ps + 7 * US, end_ps=r.end_ps + 7 * US
        )
        for r in early
    ]
    export_chrome_trace(snapshot(early), tmp_path / "early.json")
    export_chrome_trace(snapshot(late, start_us=7), tmp_path / "late.json")
    assert (tmp_path / "early.json").read_bytes() == (tmp_path / "late.json").read_bytes()


def test_trace_says_that_it_is_emulated_and_with_what(trace):
    assert trace["otherData"]["profile"] == "torchneuron-2.33"
    assert "emulated" in trace["otherData"]["times"]


def test_names_may_hold_anything(tmp_path):
    records = [work('a"\\\n</script>é', 0, 1, module='m"', line="ü.py:1")]
    export_chrome_trace(snapshot(records), tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert {e["name"] for e in trace["traceEvents"] if e["ph"] == "X"} == {'a"\\\n</script>é'}
