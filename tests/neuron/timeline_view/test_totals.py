"""Sums by operator, module, line, engine and bound; memory over time; roofline; the verdict."""

import pytest

from tests.neuron.timeline_view.example import PEAKS, US, snapshot, transformer, work
from torch_trainium.neuron.timeline_view.elapsed import CoreTime, core_times, elapsed
from torch_trainium.neuron.timeline_view.roofline import core_peaks, roofline_points
from torch_trainium.neuron.timeline_view.totals import (
    OUTSIDE_MODULES,
    UNKNOWN_LINE,
    UNKNOWN_MODULE,
    busy_parts_ps,
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
    work("fill", 51, 53, line="t.py:3 f"),
]  # fmt: skip


def items():
    return elapsed(snapshot(RECORDS))


def test_operators_are_summed_and_the_longest_is_first():
    totals = by_operator(items())
    assert list(totals) == ["mm", "fill", "add", "copy"]
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
        "t.py:3 f": 1,
        UNKNOWN_LINE: 1,
    }


def test_modules_form_a_tree_of_inclusive_times():
    root = by_module(items())
    assert list(root.children) == ["net", UNKNOWN_MODULE, OUTSIDE_MODULES]
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


def test_busy_time_belongs_to_the_busiest_engine_and_the_rest_to_overhead():
    records = [
        work("mm", 0, 10, engines={"tensor": 6, "dma": 2}),
        work("add", 10, 13, bound="launch"),
        work("copy", 13, 15, queue="copy_in", engines={}, bound="host"),
        work("qr", 15, 19, engines={}, bound="host"),
    ]
    view = snapshot(records)
    parts = busy_parts_ps(elapsed(view))
    assert {part: ps // US for part, ps in parts.items() if ps} == {
        "tensor": 6,
        "overhead": 4,
        "vector": 3,
        "copy": 2,
        "host": 4,
    }
    assert sum(parts.values()) == core_times(view)[0].busy_ps


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
    return verdict(sum(cores, CoreTime()), busy_parts_ps(elapsed(view)))


def chain(interval, *, launch, duration, **fields):
    """Ten operators that the host issues every `interval` microseconds."""
    return [
        work("add", at + launch, at + launch + duration, issued_us=at, **fields)
        for at in range(interval, 11 * interval, interval)
    ]


def test_eager_chain_of_small_operators_is_launch_bound():
    engines = {"vector": 1}
    records = chain(100, launch=20, duration=30, bound="launch", engines=engines)
    assert verdict_of(snapshot(records)) == (
        "Launch-bound: 100 % of the time goes to work that takes less time than asking for it and "
        "launching it; compile it. The device waits for the host 52 % of the time, for launches "
        "19 %, and the fixed cost of programs takes 28 %."
    )


def test_a_few_launch_bound_operators_do_not_make_a_program_launch_bound():
    records = [
        work("add", 0, 30, bound="launch", engines={"vector": 1}),
        work("mm", 30, 130, bound="tensor", engines={"tensor": 99}),
    ]
    assert verdict_of(snapshot(records)).startswith("Device-bound")


def test_long_launches_are_latency_bound():
    records = [
        work("add", at + 90, at + 100, issued_us=at / 100, bound="vector")
        for at in range(0, 1000, 100)
    ]
    assert verdict_of(snapshot(records)).startswith("Latency-bound: 100 %")


def test_long_readings_are_host_bound():
    assert verdict_of(snapshot([work("a", 0, 1, bound="vector")], end_us=9)).startswith(
        "Host-bound: 100 %"
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"engines": {"tensor": 90}}, "100 % of it with the tensor engine"),
        ({"engines": {"dma": 81}}, "90 % of it with HBM traffic"),
        ({"engines": {"vector": 9}}, "90 % of it with the fixed cost of programs"),
        ({"engines": {"collective": 90}}, "100 % of it with collectives"),
        ({"engines": {}, "bound": "host"}, "100 % of it with CPU fallbacks"),
        ({"queue": "copy_out"}, "100 % of it with copies between host and device"),
    ],
)
def test_busy_devices_are_bound_by_what_they_do(fields, words):
    text = verdict_of(snapshot([work("a", 0, 90, **{"bound": "dma"} | fields)], end_us=100))
    assert text.startswith("Device-bound: the cores are busy 90 % of the time")
    assert words in text


def test_nothing_recorded_is_said():
    assert verdict_of(snapshot([])) == "No device work was recorded."


def test_peaks_are_those_of_the_data_sheet_for_a_core():
    peaks = core_peaks("trn2", 2)
    assert peaks.flops_per_s["bf16"] == pytest.approx(157.3e12, rel=1e-3)
    assert peaks.flops_per_s["fp32"] == pytest.approx(40e12, rel=0.02)
    assert peaks.hbm_bytes_per_s == 716e9
    assert core_peaks("trn2", 1).hbm_bytes_per_s == 358e9
