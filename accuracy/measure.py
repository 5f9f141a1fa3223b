"""From a predicted time to the unit of a row."""

from dataclasses import dataclass

# Units of a time, per second.
TIMES = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "s/step": 1.0, "s/epoch": 1.0, "ms/step": 1e3}
# Units of a rate: what one of them counts.
RATES = {
    "tok/s": 1.0,
    "img/s": 1.0,
    "seq/s": 1.0,
    "samples/s": 1.0,
    "B/s": 1.0,
    "GB/s": 1e9,
    "MB/s": 1e6,
    "TFLOPS": 1e12,
    "Gbit/s": 1e9 / 8,
}


@dataclass(frozen=True)
class Measure:
    """How a row counts: a time, or `amount` (tokens, bytes) per time."""

    unit: str
    amount: float = 1.0

    def value(self, seconds: float) -> float:
        """The number that a workload of that time gives in the unit."""
        if self.unit in TIMES:
            return seconds * TIMES[self.unit]
        return self.amount / seconds / RATES[self.unit]

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.unit in RATES


def is_known(unit: str) -> bool:
    """Whether the unit is a time or a rate."""
    return unit in TIMES or unit in RATES
