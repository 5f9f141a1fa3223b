"""Bounds that users hold in their own tests."""

import pytest
import torch

from torch_trainium.testing import assert_no_fallback, assert_peak_memory, assert_step_time


def add_ones():
    ones = torch.ones(256, 256, device="neuron")
    return ones + ones


def test_a_step_within_its_bound_returns_its_time():
    took_us = assert_step_time(add_ones, max_us=1e6)
    assert 0 < took_us < 1e6
    assert assert_step_time(add_ones, max_us=took_us) == took_us


def test_a_step_beyond_its_bound_names_the_time_and_the_line():
    took_us = assert_step_time(add_ones, max_us=1e6)
    with pytest.raises(AssertionError, match=r"us of virtual time on trn2\.3xlarge") as error:
        assert_step_time(add_ones, max_us=took_us / 2)
    assert f"{took_us:,.1f} us" in str(error.value)
    assert "test_testing.py" in str(error.value)
    assert "launch-bound" in str(error.value)


def test_warm_up_calls_do_not_count():
    calls = []

    def step():
        calls.append(None)
        for _ in range(100 if len(calls) <= 2 else 1):
            add_ones()

    once_us = assert_step_time(add_ones, max_us=1e6)
    assert assert_step_time(step, max_us=1e6, warmup=2) == pytest.approx(once_us, rel=0.01)
    assert len(calls) == 3


def test_operators_that_run_natively_are_no_fallback():
    assert_no_fallback(add_ones)


def test_a_fallback_names_the_operator_and_the_line():
    with pytest.raises(AssertionError, match=r"aten::\w*svd") as error:
        assert_no_fallback(lambda: torch.linalg.svd(torch.eye(4, device="neuron")))
    assert "test_testing.py" in str(error.value)


def test_peak_memory_counts_what_was_alive_at_once():
    megabyte = 2**20

    def two_then_one():
        first = torch.empty(megabyte, dtype=torch.uint8, device="neuron")
        second = torch.empty_like(first)
        del first, second
        return torch.empty(megabyte, dtype=torch.uint8, device="neuron")

    before = torch.neuron.memory_allocated()
    most = before + 2 * megabyte
    assert assert_peak_memory(two_then_one, max_bytes=most) == most
    with pytest.raises(AssertionError, match="device memory peaked at"):
        assert_peak_memory(two_then_one, max_bytes=most - 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: assert_step_time(add_ones, max_us=0),
        lambda: assert_step_time(add_ones, max_us=float("nan")),
        lambda: assert_step_time(add_ones, max_us=1, warmup=-1),
        lambda: assert_no_fallback(add_ones, warmup=-1),
        lambda: assert_peak_memory(add_ones, max_bytes=-1),
    ],
)
def test_impossible_bounds_are_refused(call):
    with pytest.raises(ValueError, match="is not valid"):
        call()
