"""The profiler, counters and benchmarks."""

import json
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode


def test_the_activity_is_supported(device: str) -> None:
    activity = getattr(ProfilerActivity, device.upper())
    assert activity in torch.profiler.supported_activities()


def test_a_profile_names_operators_once(device: str) -> None:
    x = torch.ones(8, 8, device=device)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as profile:
        torch.mm(x, x)
    names = [event.name for event in profile.events()]
    assert names.count("aten::mm") == 1


def test_a_trace_is_written(device: str) -> None:
    x = torch.ones(8, 8, device=device)
    activities = [ProfilerActivity.CPU, getattr(ProfilerActivity, device.upper())]
    with (
        torch.profiler.profile(activities=activities, record_shapes=True) as profile,
        torch.profiler.record_function("my block"),
    ):
        (x @ x).sum().item()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        names = {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}
    assert {"my block", "aten::mm"} <= names
    assert "aten::mm" in profile.key_averages().table()


def test_memory_is_attributed(device: str) -> None:
    with torch.profiler.profile(
        activities=[ProfilerActivity.CPU, getattr(ProfilerActivity, device.upper())],
        profile_memory=True,
    ) as profile:
        torch.empty(1 << 20, dtype=torch.uint8, device=device)
    assert max(event.device_memory_usage for event in profile.key_averages()) >= 1 << 20


def test_the_legacy_profiler_runs(device: str) -> None:
    with torch.autograd.profiler.profile(use_device=device) as profile:
        torch.ones(4, device=device).sum()
    assert any("sum" in event.key for event in profile.key_averages())


def test_the_benchmark_timer_measures(device: str) -> None:
    timer = Timer("x + x", globals={"x": torch.ones(4, device=device)}, num_threads=1)
    assert timer.timeit(10).median > 0


def test_flops_are_counted_once(device: str) -> None:
    x = torch.ones(8, 8, device=device)
    with FlopCounterMode(display=False) as counter:
        torch.mm(x, x)
    assert counter.get_total_flops() == 2 * 8**3
