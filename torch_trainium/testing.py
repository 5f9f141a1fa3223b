"""Bounds that a user's tests can hold without hardware: virtual time, fallbacks, memory.

The times are those of the emulated machine and the software profile in force, the same on every
host, so a bound that holds once holds until the program changes.
"""

from collections.abc import Callable
from typing import Any

import torch

from torch_trainium.neuron import memory
from torch_trainium.neuron.timeline_view.elapsed import elapsed
from torch_trainium.neuron.timeline_view.records import TimelineSnapshot
from torch_trainium.neuron.timeline_view.totals import by_line
from torch_trainium.neuron.virtual_time import timeline

__all__ = ["assert_no_fallback", "assert_peak_memory", "assert_step_time"]

_LINES_SHOWN = 5


def assert_step_time(fn: Callable[[], Any], *, max_us: float, warmup: int = 1) -> float:
    """Run `fn` and hold its virtual time, waiting for the host included, under a bound.

    Args:
        fn: one step; called `warmup` times before the one that counts, because the first step
            makes what later ones reuse, such as an optimizer's state.
        max_us: the most microseconds it may take.
        warmup: calls before the one that counts.

    Returns:
        The microseconds it took.

    Raises:
        AssertionError: it took longer; the message names the lines that took most.
        ValueError: `max_us` is not positive or `warmup` is negative.

    """
    if not max_us > 0:
        raise ValueError(f"max_us={max_us} is not valid: it is a time in microseconds, above 0")
    snapshot = _run(fn, warmup)
    took_us = snapshot.duration_ps / 1e6
    if took_us > max_us:
        raise AssertionError(
            f"the step took {took_us:,.1f} us of virtual time on {snapshot.instance} with the "
            f"profile {snapshot.profile}; at most {max_us:,.1f} us are allowed."
            f"{_costliest(snapshot)}"
        )
    return took_us


def assert_no_fallback(fn: Callable[[], Any], *, warmup: int = 0) -> None:
    """Run `fn` and raise if an operator in it would run on the CPU of a Trainium instance.

    Args:
        fn: what to run; called `warmup` times before the call that counts.
        warmup: calls before the one that counts.

    Raises:
        AssertionError: some operators would; the message names them and the lines that call them.
        ValueError: `warmup` is negative.

    """
    fallbacks = _run(fn, warmup).fallbacks
    if fallbacks:
        listed = "".join(
            f"\n  {name}, {fallback.calls} calls: {', '.join(filter(None, fallback.lines)) or '-'}"
            for name, fallback in sorted(fallbacks.items())
        )
        raise AssertionError(f"{len(fallbacks)} operators would run on the CPU:{listed}")


def assert_peak_memory(
    fn: Callable[[], Any],
    *,
    max_bytes: int,
    warmup: int = 0,
    device: torch.device | str | int | None = None,
) -> int:
    """Run `fn` and hold the peak of its device memory under a bound.

    Args:
        fn: what to run; called `warmup` times before the call that counts.
        max_bytes: the most bytes that tensors may take at any moment, those that were alive
            before included.
        warmup: calls before the one that counts.
        device: whose memory; the current device when None.

    Returns:
        The peak in bytes.

    Raises:
        AssertionError: the peak was higher.
        ValueError: `max_bytes` or `warmup` is negative.

    """
    if max_bytes < 0:
        raise ValueError(f"max_bytes={max_bytes} is not valid: it is a number of bytes, at least 0")
    _warm_up(fn, warmup)
    before = memory.memory_allocated(device)
    memory.reset_peak_memory_stats(device)
    fn()
    peak = int(memory.max_memory_allocated(device))
    if peak > max_bytes:
        raise AssertionError(
            f"device memory peaked at {peak:,} bytes ({before:,} of them allocated before the "
            f"call); at most {max_bytes:,} bytes are allowed"
        )
    return peak


def _warm_up(fn: Callable[[], Any], times: int) -> None:
    if times < 0:
        raise ValueError(f"warmup={times} is not valid: it is a number of calls, at least 0")
    for _ in range(times):
        fn()


def _run(fn: Callable[[], Any], warmup: int) -> TimelineSnapshot:
    _warm_up(fn, warmup)
    with timeline() as scope:
        fn()
    return scope.snapshot


def _costliest(snapshot: TimelineSnapshot) -> str:
    lines = list(by_line(elapsed(snapshot)).items())[:_LINES_SHOWN]
    return "".join(
        f"\n  {total.elapsed_ps / 1e6:,.1f} us in {total.calls} calls, "
        f"{total.launch_bound_calls} of them launch-bound: {line}"
        for line, total in lines
    )
