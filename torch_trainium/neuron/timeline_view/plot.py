"""What the plots of the report share: axes, a grid, the frame.

They are SVG; the page's style sheet sets their colours and fonts.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch_trainium.neuron.timeline_view.markup import Markup, element

Label = Callable[[float], str]

# User units, which the page scales; margins hold the labels of the axes.
WIDTH, HEIGHT = 560, 330
LEFT, RIGHT, TOP, BOTTOM = 88, 26, 16, 46
# About as many ticks as an axis has room for.
LINEAR_TICKS = 5
LOG_TICKS = 7


@dataclass(frozen=True)
class Axis:
    """Maps [low, high] to pixels from `start` to `end`.

    Ticks of a "linear" axis are multiples of 1, 2 or 5 times a power of ten, those of a
    "binary" one of a power of two, those of a "log" one powers of ten.
    """

    low: float
    high: float
    start: float
    end: float
    kind: Literal["linear", "binary", "log"] = "linear"

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high, at = self.low, self.high, value
        if self.kind == "log":
            low, high, at = math.log10(low), math.log10(high), math.log10(value)
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """Round values between low and high; a log axis begins with a power of ten."""
        if self.kind == "log":
            decades = math.floor(math.log10(self.high / self.low) + 1e-9)
            step = max(1, math.ceil(decades / LOG_TICKS))
            return [self.low * 10.0**decade for decade in range(0, decades + 1, step)]
        step_at_least = (self.high - self.low) / LINEAR_TICKS
        round_step = _power_of_two if self.kind == "binary" else _one_two_or_five
        size = round_step(step_at_least)
        return [self.low + size * tick for tick in range(int((self.high - self.low) / size) + 1)]


def _power_of_two(at_least: float) -> float:
    return 2.0 ** math.ceil(math.log2(at_least))


def _one_two_or_five(at_least: float) -> float:
    power = 10.0 ** math.floor(math.log10(at_least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= at_least)


def grid(x: Axis, y: Axis, x_title: str, x_text: Label, y_text: Label) -> Iterator[Markup]:
    """Lines and labels at the ticks of both axes."""
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


def svg(identity: str, label: str, parts: Sequence[Markup]) -> Markup:
    """A plot of WIDTH by HEIGHT; `label` says what it shows to those who cannot see it."""
    return element(
        "svg", parts, id=identity, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="group", aria_label=label
    )
