"""Operators against what the core could do at most: FLOPs per byte of HBM and FLOPs per second."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch_trainium.hardware import costs
from torch_trainium.neuron.timeline_view.records import PICOSECONDS_PER_SECOND, WorkRecord


@dataclass(frozen=True)
class Peaks:
    """The most that one logical core reaches."""

    flops_per_s: Mapping[str, float]  # of the tensor engine, by dtype
    hbm_bytes_per_s: float

    def attainable(self, intensity: float, dtype: str) -> float:
        """FLOPs per second that the roof allows at `intensity` FLOPs per byte."""
        return min(self.flops_per_s[dtype], intensity * self.hbm_bytes_per_s)


def core_peaks(chip: str, logical_core_size: int) -> Peaks:
    """What one logical core of `logical_core_size` physical cores of a chip reaches at most.

    A tensor engine does rows x columns multiply-adds a cycle in bf16; fp32 takes several passes.
    These are the clock rates that the cost model uses, a little below the data sheet's chips.
    """
    constants = costs.constants(chip, logical_core_size)
    cores = constants["physical_cores"]
    multiply_adds = constants["tensor_rows"] * constants["tensor_columns"] * cores
    bf16_per_s = 2 * multiply_adds * constants["tensor_ghz"] * 1e9
    return Peaks(
        {"bf16": bf16_per_s, "fp32": bf16_per_s / constants["tensor_fp32_passes"]},
        hbm_bytes_per_s=constants["hbm_gbps"] * cores * 1e9,
    )


@dataclass(frozen=True)
class RooflinePoint:
    """All calls of one operator that computed and touched HBM."""

    operator: str
    calls: int
    device_ps: int
    flops: int
    hbm_bytes: int

    @property
    def intensity(self) -> float:
        """FLOPs per byte of HBM read or written."""
        return self.flops / self.hbm_bytes

    @property
    def flops_per_s(self) -> float:
        """Achieved while it ran: waiting for the host is not counted."""
        return self.flops * PICOSECONDS_PER_SECOND / self.device_ps


def roofline_points(records: Iterable[WorkRecord]) -> list[RooflinePoint]:
    """One point per operator, the longest first; without those that no roof applies to."""
    sums: dict[str, list[int]] = {}
    for record in records:
        if record.flops and record.hbm_bytes and record.duration_ps:
            amounts = (1, record.duration_ps, record.flops, record.hbm_bytes)
            total = sums.setdefault(record.operator, [0] * len(amounts))
            total[:] = map(int.__add__, total, amounts)
    points = [RooflinePoint(operator, *amounts) for operator, amounts in sums.items()]
    return sorted(points, key=lambda point: (-point.device_ps, point.operator))
