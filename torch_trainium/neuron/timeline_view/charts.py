"""The two plots of the report, as SVG whose colours and fonts the page's style sheet sets."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from torch_trainium.neuron.timeline_view import units
from torch_trainium.neuron.timeline_view.axis import Axis
from torch_trainium.neuron.timeline_view.markup import Markup, element, join
from torch_trainium.neuron.timeline_view.roofline import Peaks, RooflinePoint

Label = Callable[[float], str]

WIDTH, HEIGHT = 560, 330
LEFT, RIGHT, TOP, BOTTOM = 88, 26, 16, 46
# Operators that the roofline names beside their point.
NAMED_POINTS = 6
# Pixels: from a point to its name, one letter, and what a name keeps from the next one's end.
NAME_GAP, CHARACTER_WIDTH, NAME_ROOM = 16.0, 6.5, 110.0
ROOF_NAME_OFFSET = 6.0
# Columns of the memory plot: each shows the most that was in use during it.
MEMORY_COLUMNS = 240
# A line each; of more devices the plot shows those that used most.
MEMORY_DEVICES = 4


def roofline(points: Sequence[RooflinePoint], peaks: Peaks) -> Markup:
    """FLOP/s against FLOPs per byte: the roofs of the core and one disc per operator.

    A disc's area is the operator's share of the device time. Without points, says so.
    """
    if not points:
        return element("p", "No work had both FLOPs and HBM traffic.", class_="empty")
    x, y = _roofline_axes(points, peaks)
    total_ps = sum(point.device_ps for point in points)
    parts = [
        *_grid(x, y, "FLOP per byte of HBM", "{:g}".format, units.flops_rate),
        *(_roof(peaks, dtype, x, y) for dtype in peaks.flops_per_s),
        *(_disc(point, peaks, total_ps, x, y) for point in points),
        *_point_names(points[:NAMED_POINTS], [y(p) for p in peaks.flops_per_s.values()], x, y),
    ]
    label = "Roofline: achieved FLOP per second against FLOP per byte, one disc per operator"
    return _svg("roofline-plot", label, parts)


def _roofline_axes(points: Sequence[RooflinePoint], peaks: Peaks) -> tuple[Axis, Axis]:
    top = max(peaks.flops_per_s.values())
    ridge = top / peaks.hbm_bytes_per_s
    intensities = [point.intensity for point in points]
    rates = [point.flops_per_s for point in points]
    low_x = _decade_below(min(*intensities, 0.1))
    # Room for the names of the roofs, on their right.
    high_x = _decade_above(2 * max(*intensities, ridge))
    low_y = _decade_below(min(*rates, low_x * peaks.hbm_bytes_per_s))
    return (
        Axis(low_x, high_x, LEFT, WIDTH - RIGHT, kind="log"),
        Axis(low_y, _decade_above(max(top, *rates)), HEIGHT - BOTTOM, TOP, kind="log"),
    )


def _decade_below(value: float) -> float:
    return 10.0 ** math.floor(math.log10(value))


def _decade_above(value: float) -> float:
    return 10.0 ** math.ceil(math.log10(value) + 1e-9)


def _roof(peaks: Peaks, dtype: str, x: Axis, y: Axis) -> Markup:
    ridge = peaks.flops_per_s[dtype] / peaks.hbm_bytes_per_s
    corners = [(at, peaks.attainable(at, dtype)) for at in (x.low, ridge, x.high)]
    line = " ".join(f"{x(at):.1f},{y(rate):.1f}" for at, rate in corners)
    peak = units.flops_rate(peaks.flops_per_s[dtype])
    tip = f"{dtype} peak {peak}; HBM {units.bytes_rate(peaks.hbm_bytes_per_s)}"
    name = element(
        "text",
        f"{dtype} {peak}",
        class_="roof-name",
        x=x.end,
        y=y(corners[-1][1]) - ROOF_NAME_OFFSET,
    )
    return join([element("polyline", class_="roof", points=line, data_tip=tip), name])


def _disc(point: RooflinePoint, peaks: Peaks, total_ps: int, x: Axis, y: Axis) -> Markup:
    share = point.device_ps / total_ps
    bound = min(max(peaks.flops_per_s.values()), point.intensity * peaks.hbm_bytes_per_s)
    tip = (
        f"{point.operator}\n{units.flops_rate(point.flops_per_s)}, "
        f"{units.percent(point.flops_per_s / bound)} of the roof\n"
        f"{units.digits(point.intensity)} FLOP/byte\n"
        f"{units.count(point.calls)} calls, {units.time(point.device_ps)} on the device"
    )
    return element(
        "circle",
        class_="disc",
        cx=x(point.intensity),
        cy=y(point.flops_per_s),
        r=3.0 + 15.0 * math.sqrt(share),
        tabindex=0,
        role="img",
        aria_label=tip,
        data_tip=tip,
    )


def _point_names(
    points: Sequence[RooflinePoint], roofs: Sequence[float], x: Axis, y: Axis
) -> Iterator[Markup]:
    """Names of the points given, left of them; `roofs` are the heights of the roofs' names."""
    taken = [(x.end, roof - ROOF_NAME_OFFSET) for roof in roofs]
    for point in points:
        name = point.operator.removeprefix("aten::")
        at_x, at_y = x(point.intensity) - NAME_GAP, y(point.flops_per_s) + 4.0
        # A name that would cross another one or an edge is left to the tooltip.
        has_room = at_x - CHARACTER_WIDTH * len(name) > x.start and not any(
            abs(at_x - other_x) < NAME_ROOM and abs(at_y - other_y) < 14
            for other_x, other_y in taken
        )
        if has_room:
            taken.append((at_x, at_y))
            yield element("text", name, class_="point-name end", x=at_x, y=at_y)


def memory(curves: Mapping[int, Sequence[tuple[int, int]]], start_ps: int, end_ps: int) -> Markup:
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
        *_grid(x, y, "time since the scope opened", units.time, units.bytes_size),
        *(_memory_line(peaks, rank, y) for rank, peaks in enumerate(columns.values())),
        *_memory_columns(columns, x),
    ]
    return _svg("memory-plot", "Device memory in use over time", parts)


def memory_devices(curves: Mapping[int, Sequence[tuple[int, int]]]) -> list[int]:
    """The devices that `memory` shows: those that used most, in order of their numbers."""
    most = {device: max(amount for _, amount in curve) for device, curve in curves.items()}
    return sorted(sorted(most, key=lambda device: (-most[device], device))[:MEMORY_DEVICES])


def _peaks(curve: Sequence[tuple[int, int]], start_ps: int, end_ps: int) -> list[int]:
    """The most in use during each column; the amount before the first change is the first one."""
    peaks = [0] * MEMORY_COLUMNS
    in_use, next_change = curve[0][1], 0
    for column in range(MEMORY_COLUMNS):
        until_ps = start_ps + (end_ps - start_ps) * (column + 1) // MEMORY_COLUMNS
        peaks[column] = in_use
        while next_change < len(curve) and curve[next_change][0] <= until_ps:
            in_use = curve[next_change][1]
            peaks[column] = max(peaks[column], in_use)
            next_change += 1
    return peaks


def _memory_line(peaks: Sequence[int], rank: int, y: Axis) -> Markup:
    width = (WIDTH - LEFT - RIGHT) / MEMORY_COLUMNS
    line = " ".join(
        f"{LEFT + width * edge:.1f},{y(amount):.1f}"
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
    width = (WIDTH - LEFT - RIGHT) / MEMORY_COLUMNS
    for column in range(MEMORY_COLUMNS):
        since_ps = (x.high - x.low) * column / MEMORY_COLUMNS
        amounts = "\n".join(
            f"neuron:{device} {units.bytes_size(peaks[column])}"
            for device, peaks in columns.items()
        )
        yield element(
            "rect",
            class_="hover",
            x=LEFT + width * column,
            y=TOP,
            width=width,
            height=HEIGHT - TOP - BOTTOM,
            data_tip=f"after {units.time(since_ps)}\n{amounts}",
        )


def _grid(x: Axis, y: Axis, x_title: str, x_text: Label, y_text: Label) -> Iterator[Markup]:
    for value in y.ticks():
        at = y(value)
        yield element("line", class_="grid", x1=x.start, x2=x.end, y1=at, y2=at)
        yield element("text", y_text(value), class_="tick end", x=x.start - 8, y=at + 4.0)
    for value in x.ticks():
        at = x(value)
        yield element("line", class_="grid", x1=at, x2=at, y1=y.start, y2=y.end)
        yield element("text", x_text(value), class_="tick middle", x=at, y=y.start + 18.0)
    middle = (x.start + x.end) / 2
    yield element("text", x_title, class_="axis-name middle", x=middle, y=HEIGHT - 6.0)


def _svg(identity: str, label: str, parts: Sequence[Markup]) -> Markup:
    return element(
        "svg", parts, id=identity, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="group", aria_label=label
    )
