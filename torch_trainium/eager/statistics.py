"""Where programs came from, what they cost, and who asked for them."""

from __future__ import annotations

from dataclasses import dataclass

from torch_trainium.eager import calls
from torch_trainium.engines.programs import Origin, program_cache
from torch_trainium.lowering import registry


@dataclass(frozen=True)
class ProgramRecord:
    """One program of this process: an operator with one set of layouts and structural arguments.

    Attributes:
        operator: such as "aten::add.Tensor".
        inputs: the arrays that it reads, as StableHLO has them: "f32[16x128]".
        origin: "compiler", "disk", or "memory" where another operator's program is the same.
        seconds: from the miss to the loaded program.
        line: the user's line that called first.
        calls: how often it ran; all but the first found it in memory.

    """

    operator: str
    inputs: tuple[str, ...]
    origin: Origin
    seconds: float
    line: str
    calls: int


@dataclass(frozen=True)
class ProgramStatistics:
    """The programs of this process, the most expensive first.

    Attributes:
        programs: one record for each.
        stored_bytes: how much programs copied from the compiler's buffers to the device's memory;
            inputs are read in place.
        corrupt_entries: how many files of the disk cache were damaged and removed.

    """

    programs: tuple[ProgramRecord, ...]
    stored_bytes: int
    corrupt_entries: int

    @property
    def misses(self) -> int:
        """Calls that had no program in this process yet."""
        return len(self.programs)

    @property
    def hits(self) -> int:
        """Calls that found their program in memory."""
        return sum(max(program.calls - 1, 0) for program in self.programs)

    @property
    def compiles(self) -> int:
        """Programs compiled."""
        return self._count(Origin.COMPILER)

    @property
    def disk_hits(self) -> int:
        """Programs loaded from disk."""
        return self._count(Origin.DISK)

    @property
    def compile_seconds(self) -> float:
        """How long writing and compiling programs took."""
        return sum(p.seconds for p in self.programs if p.origin is Origin.COMPILER)

    def _count(self, origin: Origin) -> int:
        return sum(program.origin is origin for program in self.programs)

    def __str__(self) -> str:
        """A line of totals, then a line for each program."""
        rows = [
            f"{p.seconds * 1e3:9.1f} ms  {p.origin:8}  {p.calls:8} calls  {p.operator} "
            f"{' '.join(p.inputs)}  {p.line}"
            for p in self.programs
        ]
        totals = (
            f"{self.compiles} compiled in {self.compile_seconds:.2f} s, {self.disk_hits} from "
            f"disk, {self.hits} hits in memory"
        )
        return "\n".join([totals, *rows])


def program_statistics() -> ProgramStatistics:
    """What this process's programs cost so far, by operator and by the user's line."""
    from torch_trainium.engines import _xla_buffers

    records = [
        ProgramRecord(
            registry.qualified_name(operator.overload),
            tuple(
                f"{b.element}[{'x'.join(map(str, b.shape))}]" for b in entry.plan.signature.inputs
            ),
            entry.origin,
            entry.seconds,
            entry.line,
            entry.calls,
        )
        for operator in calls.operators()
        for entry in (*operator.released, *operator.entries.values())
    ]
    records.sort(key=lambda record: -record.seconds)
    disk = program_cache().disk
    return ProgramStatistics(
        tuple(records),
        _xla_buffers.bytes_stored(),
        0 if disk is None else disk.corrupt_entries,
    )
