"""Elapsed times: what each unit of work is given, and that a core's span is given away exactly."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.neuron.timeline_view.example import US, snapshot, work
from torch_trainium.neuron.timeline_view.elapsed import core_times, elapsed


def parts(items):
    return [
        (
            item.record.operator,
            item.issue_wait_ps // US,
            item.launch_wait_ps // US,
            item.busy_ps // US,
        )
        for item in items
    ]


def test_idle_time_is_split_at_the_issue():
    records = [work("a", 10, 15, issued_us=7), work("b", 30, 32, issued_us=20)]
    assert parts(elapsed(snapshot(records))) == [("a", 7, 3, 5), ("b", 5, 10, 2)]


def test_work_queued_behind_other_work_waits_for_nothing():
    records = [work("a", 2, 50, issued_us=1), work("b", 50, 60, issued_us=3)]
    assert parts(elapsed(snapshot(records))) == [("a", 1, 1, 48), ("b", 0, 0, 10)]


def test_overlapped_copy_counts_only_where_it_outlasts():
    records = [work("a", 0, 50), work("copy", 10, 20), work("late copy", 40, 55)]
    assert parts(elapsed(snapshot(records))) == [
        ("a", 0, 0, 50),
        ("copy", 0, 0, 0),
        ("late copy", 0, 0, 5),
    ]


def test_tail_is_what_comes_after_the_last_work():
    time = core_times(snapshot([work("a", 10, 15, issued_us=7)], end_us=100))[0]
    assert (time.span_ps, time.tail_ps, time.idle_ps) == (100 * US, 85 * US, 95 * US)


def test_cores_have_times_of_their_own():
    times = core_times(snapshot([work("a", 0, 4), work("b", 1, 2, device=3)], end_us=4))
    assert {device: time.busy_ps // US for device, time in times.items()} == {0: 4, 3: 1}


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 30), st.integers(0, 2)),
        min_size=1,
    )
)
def test_elapsed_times_add_up_to_the_span(schedule):
    records = [
        work(f"op{index}", issue + wait, issue + wait + duration, issued_us=issue, device=device)
        for index, (issue, wait, duration, device) in enumerate(schedule)
    ]
    view = snapshot(records, end_us=200)
    items = elapsed(view)
    assert len(items) == len(records)
    for device, time in core_times(view).items():
        own = [item for item in items if item.record.device == device]
        assert min(min(item[1:]) for item in own) >= 0
        assert sum(item.total_ps for item in own) + time.tail_ps == time.span_ps == 200 * US
        assert time.busy_ps == busy_by_sweep(records, device)


def busy_by_sweep(records, device):
    """The union of the work's intervals, microsecond by microsecond."""
    return US * sum(
        any(r.device == device and r.start_ps <= at * US < r.end_ps for r in records)
        for at in range(200)
    )


def test_a_scope_that_starts_late_has_no_time_before():
    records = [work("a", 110, 115, issued_us=107)]
    assert parts(elapsed(snapshot(records, start_us=100))) == [("a", 7, 3, 5)]
