"""Quantities as people read them: three significant digits and a unit."""

from collections.abc import Sequence

Scale = Sequence[tuple[float, str]]

_TIME: Scale = ((1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns"), (1, "ps"))
_BYTES: Scale = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_DECIMAL: Scale = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))


def time(ps: float) -> str:
    """1_234_000 is "1.23 µs"."""
    return _scaled(ps, _TIME)


def bytes_size(count: float) -> str:
    """1536 is "1.50 KiB"."""
    return _scaled(count, _BYTES)


def flops(count: float) -> str:
    """2.5e9 is "2.50 GFLOP"."""
    return f"{_scaled(count, _DECIMAL)}FLOP"


def flops_rate(per_s: float) -> str:
    """2.5e12 is "2.50 TFLOP/s"."""
    return f"{flops(per_s)}/s"


def bytes_rate(per_s: float) -> str:
    """716e9 is "716 GB/s": rates are decimal, as data sheets give them."""
    return f"{_scaled(per_s, _DECIMAL)}B/s"


def percent(share: float) -> str:
    """0.1234 is "12.3 %"; a share too small to show is "< 0.1 %"."""
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


def count(value: int) -> str:
    """12345 is "12,345"."""
    return f"{value:,}"


def digits(value: float) -> str:
    """Three significant digits, no more decimals than two."""
    if value == 0:
        return "0"
    decimals = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{decimals}f}"


def _scaled(value: float, scale: Scale) -> str:
    if value == 0:
        without_prefix = min((unit for _, unit in scale), key=len)
        return f"0 {without_prefix}"
    # The unit that the rounded value belongs to: 999.9 ns is 1.00 µs.
    factor, unit = next((entry for entry in scale if abs(value) >= entry[0] * 0.9995), scale[-1])
    return f"{digits(value / factor)} {unit}"
