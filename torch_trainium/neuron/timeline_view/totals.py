"""Sums over the work of a scope: by operator, module, line of the program, and engine."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from torch_trainium.neuron.timeline_view.elapsed import Elapsed
from torch_trainium.neuron.timeline_view.records import ENGINES, TimelineSnapshot, WorkRecord

# What a total is called where the work has no module or line to name.
OUTSIDE_MODULES = "(outside modules)"
UNKNOWN_MODULE = "(module unknown)"
UNKNOWN_LINE = "(line unknown)"


@dataclass
class Total:
    """What some units of work came to."""

    calls: int = 0
    launch_bound_calls: int = 0
    elapsed_ps: int = 0  # waiting for it and doing it; sums to the cores' time
    device_ps: int = 0  # on its queue
    backward_ps: int = 0  # the part of `elapsed_ps` that ran in backward
    flops: int = 0
    hbm_bytes: int = 0

    def add(self, item: Elapsed) -> None:
        """Count one unit of work."""
        record = item.record
        self.calls += 1
        self.launch_bound_calls += record.bound == "launch"
        self.elapsed_ps += item.total_ps
        self.device_ps += record.duration_ps
        self.backward_ps += item.total_ps if record.is_backward else 0
        self.flops += record.flops
        self.hbm_bytes += record.hbm_bytes


def totals_by(items: Iterable[Elapsed], key: Callable[[WorkRecord], str]) -> dict[str, Total]:
    """Totals under each key, the longest elapsed time first and equal ones by name."""
    totals: dict[str, Total] = {}
    for item in items:
        totals.setdefault(key(item.record), Total()).add(item)
    return dict(sorted(totals.items(), key=lambda pair: (-pair[1].elapsed_ps, pair[0])))


def by_operator(items: Iterable[Elapsed]) -> dict[str, Total]:
    """Totals by operator, such as "aten::mm"."""
    return totals_by(items, lambda record: record.operator)


def by_line(items: Iterable[Elapsed]) -> dict[str, Total]:
    """Totals by the user's line; backward work counts for the line that ran forward."""
    return totals_by(items, lambda record: record.line or UNKNOWN_LINE)


@dataclass
class ModuleTotal:
    """A module with everything inside it; `total` is inclusive."""

    name: str  # the last part of the path
    path: str
    total: Total = field(default_factory=Total)
    children: dict[str, "ModuleTotal"] = field(default_factory=dict)

    def child(self, name: str) -> "ModuleTotal":
        """The submodule of that name, made where it is new."""
        path = f"{self.path}.{name}" if self.path else name
        return self.children.setdefault(name, ModuleTotal(name, path))


def by_module(items: Iterable[Elapsed]) -> ModuleTotal:
    """The tree of modules under a nameless root, each with the time of its submodules too.

    Submodules stand in the order in which they first worked. Work outside modules is a child
    of the root, so that the children of the root add up to it.
    """
    root = ModuleTotal("", "")
    for item in items:
        module = root
        module.total.add(item)
        for name in _module_path(item.record).split("."):
            module = module.child(name)
            module.total.add(item)
    return root


def _module_path(record: WorkRecord) -> str:
    # Where not even the line is known, work without a module may belong to one.
    return record.module or (OUTSIDE_MODULES if record.line else UNKNOWN_MODULE)


def engine_busy_ps(records: Iterable[WorkRecord]) -> dict[str, int]:
    """How long each engine was busy, summed over cores; work on an engine does not overlap."""
    busy_ps = [0] * len(ENGINES)
    for record in records:
        for engine, ps in enumerate(record.engine_ps):
            busy_ps[engine] += ps
    return dict(zip(ENGINES, busy_ps, strict=True))


# What a core does while it is busy: an engine sets the time, or something that is no engine.
BUSY_PARTS = (*ENGINES, "overhead", "copy", "host")


def busy_parts_ps(items: Iterable[Elapsed]) -> dict[str, int]:
    """The cores' busy time by what they do: one of BUSY_PARTS.

    Of a program, the busiest engine's time counts for that engine and the rest is "overhead":
    starting up, latencies, engines waiting for each other. Copies between host and device are
    "copy", operators that fall back to the CPU "host".
    """
    parts_ps = dict.fromkeys(BUSY_PARTS, 0)
    for item in items:
        record = item.record
        if record.queue in ("copy_in", "copy_out"):
            parts_ps["copy"] += item.busy_ps
        elif record.bound == "host":
            parts_ps["host"] += item.busy_ps
        else:
            engine = max(range(len(ENGINES)), key=record.engine_ps.__getitem__)
            engine_ps = min(record.engine_ps[engine], item.busy_ps)
            parts_ps[ENGINES[engine]] += engine_ps
            parts_ps["overhead"] += item.busy_ps - engine_ps
    return parts_ps


def memory_over_time(snapshot: TimelineSnapshot) -> Mapping[int, list[tuple[int, int]]]:
    """For each device (ps, bytes in use) whenever the amount changed, in order of issue."""
    curves: dict[int, list[tuple[int, int]]] = {}
    for record in sorted(snapshot.records, key=lambda record: record.issued_ps):
        curve = curves.setdefault(record.device, [])
        if not curve or curve[-1][1] != record.allocated_bytes:
            curve.append((record.issued_ps, record.allocated_bytes))
    return {device: curves[device] for device in sorted(curves)}
