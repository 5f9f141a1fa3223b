"""Device work in torch.profiler: rows, times, links to CPU operators, sessions, threads."""

import json
import threading
from itertools import pairwise

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

CPU, NEURON = ProfilerActivity.CPU, ProfilerActivity.NEURON
BOTH = [CPU, NEURON]
DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}
PART = "privateuse1_driver"  # of a unit of work: an engine's or a queue's
ENGINE_ROWS = (
    "tensor engine",
    "vector engine",
    "scalar engine",
    "GpSimd engine",
    "DMA",
    "collectives inside programs",
)


@pytest.fixture(scope="module")
def matrix():
    return torch.randn(128, 128, device="neuron")


def row(profiler, name, device_type):
    found = [
        event
        for event in profiler.key_averages()
        if event.key == name and event.device_type == device_type
    ]
    assert len(found) == 1, [event.key for event in found]
    return found[0]


def device_events(profiler):
    return [event for event in profiler.events() if event.device_type == DeviceType.PrivateUse1]


def trace_of(profiler, folder):
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    return json.loads(path.read_text())["traceEvents"]


def test_device_time_is_attributed_to_the_operator(matrix):
    with profile(activities=BOTH) as profiler:
        for _ in range(3):
            matrix @ matrix
    on_cpu = row(profiler, "aten::mm", DeviceType.CPU)
    on_device = row(profiler, "aten::mm", DeviceType.PrivateUse1)
    assert on_cpu.count == on_device.count == 3
    assert on_device.self_device_time_total > 0
    assert on_cpu.self_device_time_total == pytest.approx(on_device.self_device_time_total)
    assert on_cpu.self_device_time_total <= on_cpu.cpu_time_total
    caller = row(profiler, "aten::matmul", DeviceType.CPU)
    assert caller.self_device_time_total == 0
    assert caller.device_time_total == pytest.approx(on_device.device_time_total)
    assert "Self NEURON" in profiler.key_averages().table()


def timed_steps(matrix):
    """Device events of a few operators and a copy, and their records of the timeline."""
    torch.neuron.synchronize()
    with torch.neuron.timeline() as scope, profile(activities=BOTH) as profiler:
        for _ in range(3):
            (matrix @ matrix).relu()
        matrix.cpu()
    return profiler, scope.snapshot.records


def ns(microseconds):
    return round(microseconds * 1000)


def test_work_takes_virtual_time(matrix):
    profiler, records = timed_steps(matrix)
    works = sorted(device_events(profiler), key=lambda event: event.time_range.start)
    assert [work.name for work in works] == [record.operator for record in records]
    assert len(works) == 7
    first_ps, first_us = records[0].start_ps, works[0].time_range.start
    for work, record in zip(works, records, strict=True):
        start_us, end_us = work.time_range.start - first_us, work.time_range.end - first_us
        assert ns(start_us) == pytest.approx((record.start_ps - first_ps) / 1000, abs=1)
        assert ns(end_us) == pytest.approx((record.end_ps - first_ps) / 1000, abs=1)


def test_device_times_are_the_same_on_every_run(matrix):
    def times():
        profiler, _ = timed_steps(matrix)
        works = sorted(device_events(profiler), key=lambda event: event.time_range.start)
        first = works[0].time_range.start
        return [(work.name, ns(work.time_range.start - first)) for work in works]

    assert times() == times()


def test_trace_has_rows_for_engines_and_copies(matrix, tmp_path):
    profiler, records = timed_steps(matrix)
    trace = trace_of(profiler, tmp_path)
    names = {
        e["tid"]: e["args"]["name"] for e in trace if e["name"] == "thread_name" and e["pid"] == 0
    }
    found = {}
    for event in sorted((e for e in trace if e.get("cat") == PART), key=lambda e: e["ts"]):
        found.setdefault(names[event["tid"]], []).append((event["name"], ns(event["dur"])))
    expected = {}
    for record in records:
        parts = dict(zip(ENGINE_ROWS, record.engine_ps, strict=True))
        if record.queue == "copy_out":
            parts = {"copies to the host": record.duration_ps}
        for row_name, busy_ps in parts.items():
            if busy_ps:
                expected.setdefault(row_name, []).append((record.operator, busy_ps / 1000))
    assert found.keys() == expected.keys() == {
        "tensor engine", "vector engine", "DMA", "copies to the host",
    }  # fmt: skip
    for row_name, parts in expected.items():
        assert [name for name, _ in found[row_name]] == [name for name, _ in parts]
        durations = [duration for _, duration in found[row_name]]
        assert durations == pytest.approx([duration for _, duration in parts], abs=1)


def test_rows_of_engines_are_no_device_time(matrix):
    profiler, records = timed_steps(matrix)
    averages = profiler.key_averages()
    total_us = sum(record.duration_ps for record in records) / 1e6
    listed = [e for e in averages if e.device_type == DeviceType.PrivateUse1]
    assert sum(e.self_device_time_total for e in listed) == pytest.approx(total_us, abs=0.01)
    assert {e.key for e in listed} == {record.operator for record in records}
    on_cpu = [e for e in averages if e.device_type == DeviceType.CPU]
    assert sum(e.self_device_time_total for e in on_cpu) == pytest.approx(total_us, abs=0.01)


def test_memory_in_use_is_a_counter(tmp_path):
    with profile(activities=BOTH) as profiler:
        kept = [torch.ones(1024, 1024, device="neuron") for _ in range(3)]
        kept.clear()
        torch.ones(1, device="neuron")
    trace = trace_of(profiler, tmp_path)
    counters = sorted((e for e in trace if e["ph"] == "C"), key=lambda e: e["ts"])
    assert {(e["name"], e["pid"]) for e in counters} == {("memory in use", 0)}
    amounts = [e["args"]["bytes"] for e in counters]
    steps = [after - before for before, after in pairwise(amounts)]
    assert steps == [4 << 20, 4 << 20, 512 - (12 << 20)]


def test_the_inner_cpu_call_is_not_shown(matrix):
    cpu_matrix = matrix.cpu()

    def operators(tensor):
        with profile(activities=BOTH) as profiler:
            torch.linalg.qr(tensor)
        events = [e for e in profiler.events() if e.device_type == DeviceType.CPU]
        return [e.name for e in events if not e.name.startswith("neuron::")]

    assert operators(matrix) == ["aten::linalg_qr"]
    assert operators(cpu_matrix) != []


def test_trace_draws_an_arrow_from_each_operator_to_its_work(matrix, tmp_path):
    with profile(activities=BOTH) as profiler:
        (matrix @ matrix).cpu()
    trace = trace_of(profiler, tmp_path)
    works = {e["name"]: e for e in trace if e.get("cat") in DEVICE_CATEGORIES}
    assert {name: work["cat"] for name, work in works.items()} == {
        "aten::mm": "kernel",
        "aten::copy_": "gpu_memcpy",
    }
    for name, work in works.items():
        operator = next(e for e in trace if e.get("cat") == "cpu_op" and e["name"] == name)
        assert work["args"]["External id"] == operator["args"]["External id"]
        assert (work["pid"], work["tid"]) == (0, 0)
        arrow = {
            e["ph"]: e
            for e in trace
            if e.get("cat") == "ac2g" and e["id"] == work["args"]["correlation"]
        }
        assert (arrow["s"]["pid"], arrow["s"]["tid"]) == (operator["pid"], operator["tid"])
        assert operator["ts"] <= arrow["s"]["ts"] <= operator["ts"] + operator["dur"]
        assert (arrow["f"]["pid"], arrow["f"]["ts"]) == (work["pid"], work["ts"])


def test_rows_are_named_after_devices_and_streams(tmp_path):
    side = torch.Stream("neuron:1")
    with profile(activities=BOTH) as profiler:
        torch.ones(4, device="neuron:0")
        with side:
            torch.ones(4, device="neuron:1")
    trace = trace_of(profiler, tmp_path)
    names = {
        (e["pid"], e["tid"] if e["name"] == "thread_name" else None): e["args"]["name"]
        for e in trace
        if e["name"] in ("process_name", "thread_name") and e["pid"] in (0, 1, 2)
    }
    engines = {row: name for row, name in names.items() if name in ENGINE_ROWS}
    assert sorted(engines.values()) == ["DMA", "DMA", "vector engine", "vector engine"]
    assert {row: name for row, name in names.items() if row not in engines} == {
        (0, None): "neuron:0",
        (1, None): "neuron:1",
        (0, 0): "stream 0",
        (1, side.stream_id): f"stream {side.stream_id}",
    }


def test_ranges_span_their_work_on_the_device(matrix):
    with profile(activities=BOTH) as profiler, record_function("outer"):
        with record_function("inner"):
            matrix.relu()
        matrix.exp()
        with record_function("host only"):
            sum(range(10))
    found = {event.name: event.time_range for event in device_events(profiler)}
    assert set(found) == {"outer", "inner", "aten::relu", "aten::exp"}
    assert found["outer"].start <= found["inner"].start <= found["aten::relu"].start
    assert found["aten::relu"].end <= found["inner"].end <= found["aten::exp"].start
    assert found["aten::exp"].end <= found["outer"].end


def test_cpu_profile_records_no_device_work(matrix, tmp_path):
    with profile(activities=[CPU]) as profiler:
        matrix @ matrix
    assert device_events(profiler) == []
    categories = {event.get("cat") for event in trace_of(profiler, tmp_path)}
    assert not categories & {*DEVICE_CATEGORIES, "privateuse1_runtime", "gpu_user_annotation"}


def test_device_profile_without_the_cpu_has_the_work(matrix):
    with profile(activities=[NEURON]) as profiler:
        matrix @ matrix
    assert [event.name for event in device_events(profiler)] == ["aten::mm"]


def test_sessions_do_not_see_each_other(matrix):
    with profile(activities=BOTH) as first:
        matrix.relu()
    matrix.exp()
    with profile(activities=BOTH) as second:
        matrix.sin()
    assert [event.name for event in device_events(first)] == ["aten::relu"]
    assert [event.name for event in device_events(second)] == ["aten::sin"]


def test_session_that_ends_inside_a_range_does_not_mark_the_next(matrix):
    first = profile(activities=BOTH)
    first.start()
    with record_function("left open"):
        matrix.relu()
        first.stop()
    with profile(activities=BOTH) as second:
        matrix.sin()
    assert [event.name for event in device_events(second)] == ["aten::sin"]


def test_schedule_records_only_active_steps(matrix):
    counts = []

    def note(profiler):
        names = [e.name for e in device_events(profiler)]
        counts.append((names.count("aten::relu"), names.count("aten::exp")))

    steps = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=steps, on_trace_ready=note, acc_events=True) as profiler:
        for step in range(8):
            matrix.exp() if step % 4 < 2 else matrix.relu()
            profiler.step()
    assert counts == [(2, 0), (4, 0)]  # of the first cycle, of both


def test_steps_are_ranges_on_the_device(matrix):
    steps = schedule(wait=0, warmup=1, active=2, repeat=1)
    names = []

    def note(profiler):
        names.extend(e.name for e in device_events(profiler))

    with profile(activities=BOTH, schedule=steps, on_trace_ready=note) as profiler:
        for _ in range(3):
            matrix.relu()
            profiler.step()
    assert sorted(names) == ["ProfilerStep*"] * 2 + ["aten::relu"] * 2


@pytest.mark.parametrize("threads", [1, 2])
def test_backward_is_linked_on_whatever_thread(matrix, threads):
    weight = matrix.clone().requires_grad_()
    with (
        torch.autograd.set_multithreading_enabled(threads > 1),
        profile(activities=BOTH) as profiler,
    ):
        (matrix @ weight).sum().backward()
    operators = [e for e in profiler.events() if e.name == "aten::mm" and e.kernels]
    assert len(operators) == 2
    assert len({e.thread for e in operators}) == threads
    assert row(profiler, "MmBackward0", DeviceType.CPU).device_time_total > 0


def test_work_of_unprofiled_threads_is_shown_without_an_operator(matrix):
    def work():
        for _ in range(50):
            matrix.relu()

    threads = [threading.Thread(target=work) for _ in range(4)]
    with profile(activities=BOTH) as profiler:
        for thread in threads:
            thread.start()
        matrix.exp()
        for thread in threads:
            thread.join()
    works = device_events(profiler)
    assert sum(e.name == "aten::relu" and e.linked_correlation_id == 0 for e in works) == 200
    assert sum(e.name == "aten::exp" and e.linked_correlation_id != 0 for e in works) == 1


def test_threads_may_work_while_sessions_come_and_go(matrix):
    done = threading.Event()

    def work():
        while not done.is_set():
            matrix.relu()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            with profile(activities=BOTH) as profiler:
                matrix.exp()
            assert sum(e.name == "aten::exp" for e in device_events(profiler)) == 1
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_failed_operator_leaves_no_work_and_a_usable_session(matrix):
    with profile(activities=BOTH) as profiler:
        with pytest.raises(torch.linalg.LinAlgError):
            torch.linalg.inv(torch.zeros(3, 3, device="neuron"))
        matrix.relu()
    assert device_events(profiler)[-1].name == "aten::relu"


def test_memory_is_attributed_to_the_operator(matrix):
    with profile(activities=BOTH, profile_memory=True) as profiler:
        product = matrix @ matrix
        del product
    operator = row(profiler, "aten::mm", DeviceType.CPU)
    assert operator.self_device_memory_usage == 128 * 128 * 4
    assert operator.cpu_memory_usage == 0


def test_legacy_profiler_times_operators_with_device_events(matrix):
    with torch.autograd.profiler.profile(use_device="neuron", use_kineto=False) as profiler:
        matrix @ matrix
    assert row(profiler, "aten::mm", DeviceType.CPU).device_time_total > 0
