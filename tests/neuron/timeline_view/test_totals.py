"""Sums by operator, module, line, engine and bound; memory over time; roofline; the verdict."""

import pytest

from tests.neuron.timeline_view.example import PEAKS, US, snapshot, transformer, work
from torch_trainium.neuron.timeline_view.elapsed import CoreTime, core_times, elapsed
from torch_trainium.neuron.timeline_view.roofline import roofline_points
from torch_trainium.neuron.timeline_view.totals import (
    OUTSIDE_MODULES,
    UNKNOWN_LINE,
    bound_busy_ps,
    by_line,
    by_module,
    by_operator,
    engine_busy_ps,
    memory_over_time,
)
from torch_trainium.neuron.timeline_view.verdict import verdict

RECORDS = [
    work("mm", 10, 20, issued_us=5, module="net.a", line="t.py:1 f", bound="tensor", flops=100),
    work("add", 20, 21, module="net", line="t.py:2 f", bound="launch", hbm_bytes=8),
    work("mm", 30, 50, issued_us=30, module="net.a", line="t.py:1 f", bound="launch", flops=50,
         is_backward=True),
    work("copy", 50, 51, line="", bound="dma"),
]  # fmt: skip


def items():
    return elapsed(snapshot(RECORDS))


def test_operators_are_summed_and_the_longest_is_first():
    totals = by_operator(items())
    assert list(totals) == ["mm", "add", "copy"]
    mm = totals["mm"]
    assert (mm.calls, mm.launch_bound_calls, mm.flops) == (2, 1, 150)
    assert (mm.elapsed_ps, mm.device_ps) == ((20 + 29) * US, (10 + 20) * US)
    assert mm.backward_ps == 29 * US
    assert totals["add"].hbm_bytes == 8


def test_equal_totals_are_ordered_by_name():
    records = [work("b", 0, 1), work("a", 1, 2)]
    assert list(by_operator(elapsed(snapshot(records)))) == ["a", "b"]


def test_lines_are_summed_and_unknown_ones_named():
    totals = by_line(items())
    assert {line: total.calls for line, total in totals.items()} == {
        "t.py:1 f": 2,
        "t.py:2 f": 1,
        UNKNOWN_LINE: 1,
    }


def test_modules_form_a_tree_of_inclusive_times():
    root = by_module(items())
    assert list(root.children) == ["net", OUTSIDE_MODULES]
    net = root.children["net"]
    assert net.total.elapsed_ps == 50 * US
    assert net.children["a"].path == "net.a"
    assert net.children["a"].total.elapsed_ps == 49 * US
    assert root.total.elapsed_ps == sum(c.total.elapsed_ps for c in root.children.values())


def test_modules_of_a_transformer_contain_their_submodules():
    root = by_module(elapsed(transformer()))

    def check(module):
        inside = sum(child.total.elapsed_ps for child in module.children.values())
        assert inside <= module.total.elapsed_ps
        for child in module.children.values():
            check(child)

    check(root)
    assert list(root.children["layers"].children) == ["0", "1", "2", "3"]


def test_engines_are_summed_over_records():
    records = [work("mm", 0, 9, engines={"tensor": 9, "dma": 4}), work("x", 9, 10)]
    busy = engine_busy_ps(records)
    assert busy["tensor"] == 9 * US
    assert busy["dma"] == 4 * US
    assert busy["vector"] == 1 * US
    assert busy["collective"] == 0


def test_busy_time_of_launch_bound_work_belongs_to_its_busiest_engine():
    busy = bound_busy_ps(items())
    assert {bound: ps // US for bound, ps in busy.items() if ps} == {
        "tensor": 10,
        "vector": 21,
        "dma": 1,
    }
    assert sum(busy.values()) == core_times(snapshot(RECORDS))[0].busy_ps


def test_memory_changes_are_kept_in_order_of_issue():
    records = [
        work("a", 5, 6, issued_us=1, allocated_bytes=10),
        work("b", 6, 7, issued_us=2, allocated_bytes=10),
        work("d", 1, 2, issued_us=4, allocated_bytes=5),
        work("c", 7, 8, issued_us=3, allocated_bytes=30),
        work("other", 0, 1, device=1, allocated_bytes=7),
    ]
    assert memory_over_time(snapshot(records)) == {
        0: [(1 * US, 10), (3 * US, 30), (4 * US, 5)],
        1: [(0, 7)],
    }


def test_roofline_points_hold_rates_while_running():
    records = [
        work("mm", 10, 12, issued_us=0, flops=3_000_000, hbm_bytes=1000),
        work("mm", 20, 22, flops=1_000_000, hbm_bytes=1000),
        work("view", 22, 22, flops=5, hbm_bytes=5),
        work("copy", 22, 30, hbm_bytes=5),
    ]
    (point,) = roofline_points(records)
    assert (point.operator, point.calls) == ("mm", 2)
    assert point.intensity == 2000
    assert point.flops_per_s == pytest.approx(4e6 / 4e-6)


def test_roof_is_the_lower_of_traffic_and_compute():
    assert PEAKS.attainable(1.0, "bf16") == 716e9
    assert PEAKS.attainable(1e6, "bf16") == 157.3e12
    assert PEAKS.attainable(100.0, "fp32") == 40e12


def verdict_of(view):
    cores = core_times(view).values()
    return verdict(sum(cores, CoreTime()), bound_busy_ps(elapsed(view)))


def test_eager_chain_of_small_operators_is_launch_bound():
    records = [work("add", at + 10, at + 11, issued_us=at + 7) for at in range(0, 1000, 100)]
    text = verdict_of(snapshot(records))
    assert text.startswith("Launch-bound: 97 % of device idle time waits for host issue; compile")
    assert text.endswith("The device is idle 99 % of the time.")


def test_long_launches_are_latency_bound():
    records = [work("add", at + 90, at + 100, issued_us=at) for at in range(0, 1000, 100)]
    assert verdict_of(snapshot(records)).startswith("Latency-bound: 100 %")


def test_long_readings_are_host_bound():
    assert verdict_of(snapshot([work("a", 0, 1)], end_us=9)).startswith("Host-bound: 100 %")


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ("tensor", "100 % of it bound by the tensor engine"),
        ("dma", "100 % of it bound by HBM traffic"),
        ("collective", "100 % of it bound by collectives"),
        ("host", "100 % of it bound by the host"),
    ],
)
def test_busy_devices_are_bound_by_what_sets_their_time(bound, words):
    text = verdict_of(snapshot([work("a", 0, 90, bound=bound)], end_us=100))
    assert text.startswith("Device-bound: the cores are busy 90 % of the time")
    assert words in text


def test_nothing_recorded_is_said():
    assert verdict_of(snapshot([])) == "No device work was recorded."
