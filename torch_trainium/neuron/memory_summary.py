"""The table of `torch.neuron.memory_summary`, of the shape `torch.cuda.memory_summary` has."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

WIDTH = 75
VALUES = ("current", "peak", "allocated", "freed")
POOLS = (("large_pool", "      from large pool"), ("small_pool", "      from small pool"))


def format_bytes(amount: int, scale: int) -> str:
    """`amount` in the unit in which `scale` bytes are below 768 thousand."""
    return _format(amount, scale, 1024, 768 * 1024, ("B  ", "KiB", "MiB", "GiB", "TiB", "PiB"), 6)


def format_count(amount: int, scale: int) -> str:
    """`amount` in the unit in which `scale` is below 750 thousand."""
    return _format(amount, scale, 1000, 750 * 1000, ("  ", "K ", "M "), 7)


def _format(
    amount: int, scale: float, step: int, limit: int, units: Sequence[str], width: int
) -> str:
    unit = 0
    while scale >= limit and unit + 1 < len(units):
        unit += 1
        amount //= step
        scale /= step
    return f"{amount:{width}d} {units[unit]}"


Formatter = Callable[[int, int], str]

METRICS: tuple[tuple[str, str, Formatter], ...] = (
    ("allocated_bytes", "Allocated memory", format_bytes),
    ("active_bytes", "Active memory", format_bytes),
    ("requested_bytes", "Requested memory", format_bytes),
    ("reserved_bytes", "HBM reserved memory", format_bytes),
    ("inactive_split_bytes", "Non-releasable memory", format_bytes),
    ("allocation", "Allocations", format_count),
    ("active", "Active allocs", format_count),
    ("segment", "HBM reserved segments", format_count),
    ("inactive_split", "Non-releasable allocs", format_count),
)
UNPOOLED_METRICS = (
    ("oversize_allocations", "Oversize allocations"),
    ("oversize_segments", "Oversize segments"),
)


def summary_table(stats: Mapping[str, Any], device: int, abbreviated: bool) -> str:
    """The table of `stats`, flat statistics of device number `device`."""
    header = ("Metric         ", "Cur Usage ", "Peak Usage", "Tot Alloc ", "Tot Freed ")
    lines = [
        "=" * WIDTH,
        f"{'':18}PyTorch neuron memory summary, device ID {device:<15d} ",
        "-" * WIDTH,
        f"{'':11}Device OOMs: {stats['num_ooms']:<12d}|{'':6}Allocation retries: "
        f"{stats['num_alloc_retries']:<12d}",
        "=" * WIDTH,
        " " * 7 + " | ".join(header) + " ",
    ]
    for metric, title, formatter in METRICS:
        lines.append("-" * WIDTH)
        totals = [stats[f"{metric}.all.{value}"] for value in VALUES]
        lines.append(_row(title, totals, totals, formatter))
        for pool, pool_title in () if abbreviated else POOLS:
            amounts = [stats[f"{metric}.{pool}.{value}"] for value in VALUES]
            lines.append(_row(pool_title, amounts, totals, formatter))
    for metric, title in UNPOOLED_METRICS:
        lines.append("-" * WIDTH)
        amounts = [stats[f"{metric}.{value}"] for value in VALUES]
        lines.append(_row(title, amounts, amounts, format_count))
    lines.append("=" * WIDTH)
    return "".join(f"|{line:<{WIDTH}}|\n" for line in lines)


def _row(title: str, amounts: Sequence[int], scales: Sequence[int], formatter: Formatter) -> str:
    # Amounts of a pool are in the unit of the total above them.
    cells = [formatter(amount, scale) for amount, scale in zip(amounts, scales, strict=True)]
    return f" {title:<21} | " + " | ".join(cells) + " "
