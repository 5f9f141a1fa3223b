"""Quantities as people read them."""

import pytest

from torch_trainium.neuron.timeline_view import units


@pytest.mark.parametrize(
    ("ps", "text"),
    [
        (0, "0 s"),
        (7, "7.00 ps"),
        (999_900, "1.00 µs"),
        (12_345_678, "12.3 µs"),
        (123_456_789, "123 µs"),
        (8_300_000_000, "8.30 ms"),
        (75 * 10**12, "75.0 s"),
        (4000 * 10**12, "4,000 s"),
    ],
)
def test_times_have_three_digits(ps, text):
    assert units.time(ps) == text


def test_sizes_are_binary_and_rates_decimal():
    assert units.bytes_size(1536) == "1.50 KiB"
    assert units.bytes_size(0) == "0 B"
    assert units.bytes_rate(716e9) == "716 GB/s"
    assert units.flops(2.5e9) == "2.50 GFLOP"
    assert units.flops_rate(157.3e12) == "157 TFLOP/s"
    assert units.flops(0) == "0 FLOP"


def test_small_shares_are_not_shown_as_none():
    assert units.percent(0.0004) == "< 0.1 %"
    assert units.percent(0) == "0.0 %"
    assert units.percent(0.4284) == "42.8 %"
