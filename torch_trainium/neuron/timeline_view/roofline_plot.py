"""The roofs of a core and what its operators reached below them."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
from torch_trainium.neuron.timeline_view.roofline import Peaks, RooflinePoint

# Operators that have a name beside their disc, where there is room; the others' is in the tooltip.
NAMED_POINTS = 6
CHARACTER_WIDTH, LINE_HEIGHT = 6.4, 14.0
ROOF_NAME_GAP = 6.0  # from the roof up to its name
# The part of the plot's width, from the left, that discs may be in; names of roofs are beside it.
DISC_AREA = 0.72


class _Box(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: "_Box") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class _Disc(NamedTuple):
    point: RooflinePoint
    x: float
    y: float
    radius: float

    def box(self) -> _Box:
        r = self.radius
        return _Box(self.x - r, self.x + r, self.y - r, self.y + r)


def roofline_plot(points: Sequence[RooflinePoint], peaks: Peaks) -> Markup:
    """FLOP/s against FLOPs per byte: the roofs of the core and one disc per operator.

    A disc's area is the operator's share of the device time. Without points, says so.
    """
    if not points:
        return element("p", "No work had both FLOPs and HBM traffic.", class_="empty")
    x, y = _axes(points, peaks)
    total_ps = sum(point.device_ps for point in points)
    discs = [
        _Disc(
            point,
            x(point.intensity),
            y(point.flops_per_s),
            3.0 + 15.0 * math.sqrt(point.device_ps / total_ps),
        )
        for point in points
    ]
    parts = [
        *grid(x, y, "FLOP per byte of HBM", "{:g}".format, units.flops_rate),
        *(_roof(peaks, dtype, x, y) for dtype in peaks.flops_per_s),
        *(_circle(disc, peaks) for disc in discs),
        *_names(discs, [_roof_name_box(peaks, dtype, x, y) for dtype in peaks.flops_per_s]),
    ]
    label = "Roofline: achieved FLOP per second against FLOP per byte, one disc per operator"
    return svg("roofline-plot", label, parts)


def _axes(points: Sequence[RooflinePoint], peaks: Peaks) -> tuple[Axis, Axis]:
    top = max(peaks.flops_per_s.values())
    intensities = [point.intensity for point in points]
    rates = [point.flops_per_s for point in points]
    low_x = _decade_below(min(*intensities, 0.1))
    disc_x = max(*intensities, top / peaks.hbm_bytes_per_s)
    high_x = low_x * (disc_x / low_x) ** (1 / DISC_AREA)
    low_y = _decade_below(min(*rates, low_x * peaks.hbm_bytes_per_s))
    high_y = 10.0 ** math.ceil(math.log10(max(top, *rates)))
    return (
        Axis(low_x, high_x, LEFT, WIDTH - RIGHT, kind="log"),
        Axis(low_y, high_y, HEIGHT - BOTTOM, TOP, kind="log"),
    )


def _decade_below(value: float) -> float:
    return 10.0 ** math.floor(math.log10(value))


def _roof(peaks: Peaks, dtype: str, x: Axis, y: Axis) -> Markup:
    ridge = peaks.flops_per_s[dtype] / peaks.hbm_bytes_per_s
    corners = [(at, peaks.attainable(at, dtype)) for at in (x.low, ridge, x.high)]
    line = " ".join(f"{x(at):.1f},{y(rate):.1f}" for at, rate in corners)
    peak = units.flops_rate(peaks.flops_per_s[dtype])
    tip = f"{dtype} peak {peak}\nHBM {units.bytes_rate(peaks.hbm_bytes_per_s)}"
    height = y(peaks.flops_per_s[dtype]) - ROOF_NAME_GAP
    return join(
        [
            element("polyline", class_="roof", points=line, data_tip=tip),
            element("text", f"{dtype} {peak}", class_="roof-name", x=x.end, y=height),
        ]
    )


def _roof_name_box(peaks: Peaks, dtype: str, x: Axis, y: Axis) -> _Box:
    bottom = y(peaks.flops_per_s[dtype]) - ROOF_NAME_GAP
    left = LEFT + DISC_AREA * (WIDTH - LEFT - RIGHT)
    return _Box(left, x.end, bottom - LINE_HEIGHT, bottom)


def _circle(disc: _Disc, peaks: Peaks) -> Markup:
    point = disc.point
    roof = max(peaks.attainable(point.intensity, dtype) for dtype in peaks.flops_per_s)
    tip = (
        f"{point.operator}\n{units.flops_rate(point.flops_per_s)}, "
        f"{units.percent(point.flops_per_s / roof)} of the roof\n"
        f"{units.digits(point.intensity)} FLOP/byte\n"
        f"{units.count(point.calls)} calls, {units.time(point.device_ps)} on the device"
    )
    return element(
        "circle",
        class_="disc",
        cx=disc.x,
        cy=disc.y,
        r=disc.radius,
        tabindex=0,
        role="img",
        aria_label=tip,
        data_tip=tip,
    )


def _names(discs: Sequence[_Disc], roof_names: Sequence[_Box]) -> Iterator[Markup]:
    """Names of the first discs, each on the first of four sides that is free."""
    axis_labels = _Box(0, LEFT, 0, HEIGHT)
    taken = [*(disc.box() for disc in discs), *roof_names, axis_labels]
    for disc in discs[:NAMED_POINTS]:
        name = disc.point.operator.removeprefix("aten::")
        width, gap = CHARACTER_WIDTH * len(name), disc.radius + 4
        half = LINE_HEIGHT / 2
        for left, middle in (
            (disc.x - gap - width, disc.y),
            (disc.x + gap, disc.y),
            (disc.x - width / 2, disc.y + gap + half),
            (disc.x - width / 2, disc.y - gap - half),
        ):
            box = _Box(left, left + width, middle - half, middle + half)
            if not any(map(box.meets, taken)):
                taken.append(box)
                yield element("text", name, class_="point-name", x=left, y=middle + 4.0)
                break
