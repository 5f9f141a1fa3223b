"""Times two callables against each other, interleaved, so that a busy machine hits both."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import Any

Call = Callable[[], Any]


@dataclass(frozen=True)
class Comparison:
    """Medians of both sides; the ratio is the median over pairs of neighbouring runs."""

    device_us: float
    cpu_us: float
    ratio: float
    runs: int

    def as_json(self) -> dict[str, float]:
        return {key: round(value, 4) for key, value in asdict(self).items()}


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _seconds(call: Call, times: int) -> float:
    start = time.perf_counter()
    for _ in repeat(None, times):
        call()
    return time.perf_counter() - start


def _calls_that_take(seconds: float, call: Call) -> int:
    times = 1
    while (taken := _seconds(call, times)) < seconds / 2:
        times = max(2 * times, int(times * seconds / 2 / max(taken, 1e-7)))
    return max(1, round(times * seconds / taken))


def compare(device: Call, cpu: Call, runs: int, seconds_per_run: float) -> Comparison:
    """Time both callables `runs` times for about `seconds_per_run`, alternating who is first."""
    for call in (device, cpu, device, cpu):  # caches, the allocator, lazy initialization
        call()
    with _no_garbage_collection():
        times = max(1, _calls_that_take(seconds_per_run, cpu))
        pairs = []
        for run in range(runs):
            if run % 2:
                cpu_seconds = _seconds(cpu, times)
                pairs.append((_seconds(device, times), cpu_seconds))
            else:
                device_seconds = _seconds(device, times)
                pairs.append((device_seconds, _seconds(cpu, times)))
    return Comparison(
        device_us=statistics.median(d for d, _ in pairs) / times * 1e6,
        cpu_us=statistics.median(c for _, c in pairs) / times * 1e6,
        ratio=statistics.median(d / c for d, c in pairs),
        runs=runs,
    )
