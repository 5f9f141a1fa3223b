"""Snapshots, their history, and PyTorch's own tools on them."""

import pickle
import re
import threading
import time

import pytest
import torch
from torch.cuda import _memory_viz

from torch_trainium.neuron import memory

MIB = 2**20


@pytest.fixture
def record():
    yield memory._record_memory_history
    memory._record_memory_history(None)


def allocate_here(mebibytes=3):
    return torch.empty(int(mebibytes * MIB), dtype=torch.uint8, device="neuron")


def last_entries(action):
    trace = memory._snapshot()["device_traces"][0]
    return [entry for entry in trace if entry["action"] == action]


def functions(frames):
    return [frame["name"] for frame in frames]


def test_segment_totals_equal_the_statistics():
    tensors = [torch.empty(n * 100_000, device="neuron") for n in (1, 5, 50)]
    del tensors[1]
    segments = [s for s in memory.memory_snapshot() if s["device"] == 0]
    stats = memory.memory_stats()
    for key, metric in (
        ("total_size", "reserved_bytes"),
        ("allocated_size", "allocated_bytes"),
        ("active_size", "active_bytes"),
        ("requested_size", "requested_bytes"),
    ):
        assert sum(s[key] for s in segments) == stats[f"{metric}.all.current"]


def test_history_of_one_tensor(record):
    record(clear_history=True)
    tensor = allocate_here()
    address = tensor.data_ptr()
    del tensor
    trace = memory._snapshot()["device_traces"][0]
    mine = [e for e in trace if e.get("addr") == address and "segment" not in e["action"]]
    assert [e["action"] for e in mine] == ["alloc", "free_requested", "free_completed"]
    assert {e["size"] for e in mine} == {3 * MIB}
    assert all("test_history_of_one_tensor" in functions(e["frames"]) for e in mine)
    assert "allocate_here" in functions(mine[0]["frames"])
    assert mine[0]["time_us"] <= mine[1]["time_us"]
    assert trace[-1]["action"] == "snapshot"


def test_times_are_microseconds_since_the_epoch(record):
    record(clear_history=True)
    start = time.time()
    allocate_here()
    entry = last_entries("alloc")[-1]
    assert start - 1 <= entry["time_us"] / 1e6 <= time.time() + 1


def test_live_block_has_its_stack(record):
    record()
    tensor = allocate_here()
    block = next(
        b
        for s in memory.memory_snapshot()
        for b in s["blocks"]
        if b["address"] == tensor.data_ptr()
    )
    assert "allocate_here" in functions(block["frames"])
    frames = memory._allocation_traceback(tensor.data_ptr())
    assert frames == block["frames"]
    assert memory._allocation_traceback(tensor.data_ptr() + 512) is None


def test_without_recording_there_is_no_stack():
    tensor = allocate_here()
    assert memory._allocation_traceback(tensor.data_ptr()) is None
    assert memory._allocation_traceback(12345) is None
    assert memory._snapshot()["device_traces"][0] == []


def test_segments_and_out_of_memory_are_recorded(record):
    memory.empty_cache()
    record(clear_history=True)
    tensor = allocate_here(100)
    del tensor
    memory.empty_cache()
    with pytest.raises(torch.OutOfMemoryError):
        allocate_here(1e6)
    assert last_entries("segment_alloc")[-1]["size"] == 100 * MIB
    assert last_entries("segment_free")[-1]["size"] == 100 * MIB
    oom = last_entries("oom")[-1]
    assert oom["size"] == 10**6 * MIB
    assert oom["device_free"] == memory.mem_get_info()[0]


def test_history_keeps_the_last_entries(record):
    record(max_entries=4, clear_history=True)
    for size in range(1, 20):
        allocate_here(size)
    trace = memory._snapshot()["device_traces"][0]
    assert [e["action"] for e in trace] == [
        "alloc",
        "free_requested",
        "free_completed",
        "snapshot",
    ]
    assert trace[0]["size"] == 19 * MIB


def test_skipped_actions_are_not_recorded(record):
    record(clear_history=True, skip_actions=["free_requested", "free_completed"])
    allocate_here()
    actions = {e["action"] for e in memory._snapshot()["device_traces"][0]}
    assert "alloc" in actions
    assert not actions & {"free_requested", "free_completed"}


@pytest.mark.parametrize(
    ("context", "on_block", "on_alloc", "on_free"),
    [
        (None, False, False, False),
        ("state", True, False, False),
        ("alloc", True, True, False),
        ("all", True, True, True),
    ],
)
def test_context_says_which_stacks_are_kept(record, context, on_block, on_alloc, on_free):
    record(context=context, clear_history=True, stacks="python")
    kept = allocate_here()
    allocate_here()
    assert bool(memory._allocation_traceback(kept.data_ptr())) == on_block
    assert bool(last_entries("alloc")[-1]["frames"]) == on_alloc
    assert bool(last_entries("free_requested")[-1]["frames"]) == on_free


@pytest.mark.parametrize("wrong", [{"enabled": "no"}, {"context": "no"}, {"stacks": "no"}])
def test_unknown_options_are_refused(wrong):
    with pytest.raises(ValueError, match="to be one of"):
        memory._record_memory_history(**wrong)


def test_recording_from_threads_without_deadlock(record):
    record(max_entries=1000, stacks="python")
    x = torch.ones(64, 64, device="neuron", requires_grad=True)

    def work():
        for _ in range(30):
            (x @ x).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@pytest.fixture
def snapshot(record):
    record(clear_history=True)
    tensors = [allocate_here(n) for n in (0.1, 3, 30)]
    del tensors[0]
    with torch.Stream("neuron"):
        tensors.append(allocate_here(1))
    taken = memory._snapshot()
    del tensors
    return taken


def test_viewer_totals(snapshot):
    text = _memory_viz.segsum(snapshot)
    segments = snapshot["segments"]
    assert f"segments: {len(segments)}\n" in text
    reserved = sum(s["total_size"] for s in segments)
    assert f"total_reserved: {_memory_viz.Bytes(reserved)}\n" in text


def test_viewer_trace(snapshot):
    text = _memory_viz.trace(snapshot)
    assert re.search(r"\w+ = \w+\[\d+:3\.0MiB\]\n(.*\n)*\w+ = \w+\[\d+:30\.0MiB\]", text)


@pytest.mark.parametrize("view", [_memory_viz.segments, _memory_viz.memory])
def test_viewer_flame_graphs(snapshot, view):
    lines = view(snapshot, format_flamegraph=lambda text: text).splitlines()
    assert any("allocate_here" in line and line.endswith(str(30 * MIB)) for line in lines)
    reserved = sum(s["total_size"] for s in snapshot["segments"])
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == reserved


@pytest.mark.parametrize("plot", [_memory_viz.trace_plot, _memory_viz.segment_plot])
def test_viewer_plots(snapshot, plot):
    assert "<html>" in plot(snapshot).lower()


def test_viewer_compares_snapshots(snapshot):
    lines = _memory_viz.compare(
        snapshot["segments"], [], format_flamegraph=lambda text: text
    ).splitlines()
    assert lines
    assert all(line.startswith("only_before") for line in lines)


def test_dumped_snapshot_is_read_back(snapshot, tmp_path):
    file = tmp_path / "snapshot.pickle"
    memory._dump_snapshot(file)
    loaded = pickle.loads(file.read_bytes())
    assert set(loaded) == set(snapshot)
    assert loaded["segments"] == memory.memory_snapshot()


def test_snapshot_can_be_augmented_with_model_lines(snapshot):
    assert memory._snapshot(augment_with_fx_traces=True)["segments"]
