"""Device memory over time, a step line per device."""

from collections.abc import Iterator, Mapping, Sequence

from torch_trainium.neuron.timeline_view import units
from torch_trainium.neuron.timeline_view.markup import Markup, element, join
from torch_trainium.neuron.timeline_view.plot import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    grid,
    svg,
)

Curves = Mapping[int, Sequence[tuple[int, int]]]  # by device: (ps, bytes in use)

# Each shows the most that was in use during it.
COLUMNS = 240
COLUMN_WIDTH = (WIDTH - LEFT - RIGHT) / COLUMNS
# A line each; of more devices the plot shows those that used most.
MOST_DEVICES = 4


def memory_plot(curves: Curves, start_ps: int, end_ps: int) -> Markup:
    """Bytes in use over time, a line per device. Without curves, says so."""
    if not curves or end_ps <= start_ps:
        return element("p", "No device memory was in use.", class_="empty")
    columns = {
        device: _peaks(curves[device], start_ps, end_ps) for device in memory_devices(curves)
    }
    x = Axis(0, end_ps - start_ps, LEFT, WIDTH - RIGHT)
    high = max(max(peaks) for peaks in columns.values())
    y = Axis(0, 1.05 * max(high, 1), HEIGHT - BOTTOM, TOP, kind="binary")
    parts = [
        *grid(x, y, "time since the scope opened", units.time, units.bytes_size),
        *(_memory_line(peaks, rank, y) for rank, peaks in enumerate(columns.values())),
        *_memory_columns(columns, x),
    ]
    return svg("memory-plot", "Device memory in use over time", parts)


def memory_devices(curves: Curves) -> list[int]:
    """The devices that `memory_plot` shows: those that used most, in order of their numbers."""
    most = {device: max(amount for _, amount in curve) for device, curve in curves.items()}
    return sorted(sorted(most, key=lambda device: (-most[device], device))[:MOST_DEVICES])


def _peaks(curve: Sequence[tuple[int, int]], start_ps: int, end_ps: int) -> list[int]:
    """The most in use during each column; the amount before the first change is the first one."""
    peaks = [0] * COLUMNS
    in_use, next_change = curve[0][1], 0
    for column in range(COLUMNS):
        until_ps = start_ps + (end_ps - start_ps) * (column + 1) // COLUMNS
        peaks[column] = in_use
        while next_change < len(curve) and curve[next_change][0] <= until_ps:
            in_use = curve[next_change][1]
            peaks[column] = max(peaks[column], in_use)
            next_change += 1
    return peaks


def _memory_line(peaks: Sequence[int], rank: int, y: Axis) -> Markup:
    line = " ".join(
        f"{LEFT + COLUMN_WIDTH * edge:.1f},{y(amount):.1f}"
        for column, amount in enumerate(peaks)
        for edge in (column, column + 1)
    )
    area = f"{LEFT},{y(0):.1f} {line} {WIDTH - RIGHT},{y(0):.1f}"
    return join(
        [
            element("polygon", class_=f"area device-{rank}", points=area),
            element("polyline", class_=f"curve device-{rank}", points=line),
        ]
    )


def _memory_columns(columns: Mapping[int, Sequence[int]], x: Axis) -> Iterator[Markup]:
    for column in range(COLUMNS):
        since_ps = (x.high - x.low) * column / COLUMNS
        amounts = "\n".join(
            f"neuron:{device} {units.bytes_size(peaks[column])}"
            for device, peaks in columns.items()
        )
        yield element(
            "rect",
            class_="hover",
            x=LEFT + COLUMN_WIDTH * column,
            y=TOP,
            width=COLUMN_WIDTH,
            height=HEIGHT - TOP - BOTTOM,
            data_tip=f"after {units.time(since_ps)}\n{amounts}",
        )
