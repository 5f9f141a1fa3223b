"""`torch.neuron.timeline`: what the devices did, and when, in virtual time."""

from collections.abc import Mapping
from os import PathLike
from threading import Lock
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from torch_trainium import _C, config
from torch_trainium.hardware.profiles import profile
from torch_trainium.neuron import cpu_fallbacks
from torch_trainium.neuron.devices import device_count, synchronize
from torch_trainium.neuron.observe import INTERNAL_FOLDERS
from torch_trainium.neuron.timeline_view.records import (
    Fallback,
    OperatorTotal,
    Span,
    TimelineSnapshot,
    WorkRecord,
)

PICOSECONDS_PER_MICROSECOND = 10**6


class Timeline:
    """The virtual timeline of all devices, from the start of the process or inside a scope.

    As it is, it tells what each operator came to since the process started or
    `reset` was called. As a context manager it records every unit of work inside, with the
    module and the line that asked for it, and tells about those alone::

        with torch.neuron.timeline() as scope:
            train_step()
        print(scope.operators["aten::mm"].device_ps)

    Every time depends on the emulated machine and on the software profile, which `snapshot`
    names. Times are integer picoseconds; the same program gives the same ones.
    """

    def __init__(self) -> None:
        self._snapshot: TimelineSnapshot | None = None
        self._modules: _ModuleNames | None = None
        self._started_ps: dict[int, int] = {}

    def __enter__(self) -> "Timeline":
        if _C.timeline.is_scope_open():
            raise RuntimeError(
                "a torch.neuron.timeline() scope is open already; close it before the next one"
            )
        self._snapshot = None
        synchronize()
        self._started_ps = _times()
        self._modules = _ModuleNames()
        _C.timeline.start_scope(list(INTERNAL_FOLDERS))
        return self

    def __exit__(self, *exception: object) -> None:
        records = _C.timeline.stop_scope()
        assert self._modules is not None  # __enter__ made it
        names = self._modules.close()
        work = [
            WorkRecord._make((*fields[:12], names[fields[12]], *fields[13:])) for fields in records
        ]
        ended_ps = _times()
        spans = {
            device: Span(self._started_ps.get(device, 0), ended_ps[device])
            for device in sorted({record.device for record in work})
        }
        self._snapshot = _snapshot(work, spans)

    @property
    def snapshot(self) -> TimelineSnapshot:
        """All that is known: of the scope once it is closed, else since the last reset."""
        return self._snapshot if self._snapshot is not None else _snapshot_since_reset()

    @property
    def operators(self) -> Mapping[str, OperatorTotal]:
        """Calls and device time by operator, such as "aten::mm"."""
        return self.snapshot.operators

    @property
    def elapsed_us(self) -> float:
        """Microseconds from the first start to the last end, waiting for the host included."""
        return self.snapshot.duration_ps / PICOSECONDS_PER_MICROSECOND

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the scope's work as a trace that Perfetto and chrome://tracing open.

        One process per device, with rows for the host's issues, engines, DMA, collectives and
        streams, and the memory in use. The same program gives the same bytes.

        Raises RuntimeError unless this is a scope that was closed.
        """
        from torch_trainium.neuron.timeline_view.chrome_trace import export_chrome_trace

        export_chrome_trace(self.closed_snapshot(), path)

    def closed_snapshot(self) -> TimelineSnapshot:
        """The snapshot with the records of the scope.

        Raises RuntimeError unless this is a scope that was closed.
        """
        if self._snapshot is None:
            raise RuntimeError(
                "no single units of work are known outside a scope: run the program inside "
                "`with torch.neuron.timeline() as scope:`, then use `scope`"
            )
        return self._snapshot

    @staticmethod
    def reset() -> None:
        """Forget what was charged so far, and the CPU fallbacks; the clock goes on."""
        _C.timeline.reset_totals()
        cpu_fallbacks.reset_fallbacks()


def timeline() -> Timeline:
    """What the devices did in virtual time; see `Timeline`."""
    return Timeline()


def _times() -> dict[int, int]:
    """For each device: when it and the calling thread are done with what was asked so far."""
    host_ps = _C.timeline.host_ps()
    devices = range(device_count())
    return {device: max(host_ps, _C.timeline.device_ps(device)) for device in devices}


def _snapshot(records: list[WorkRecord], spans: dict[int, Span]) -> TimelineSnapshot:
    operators: dict[str, OperatorTotal] = {}
    fallbacks: dict[str, Fallback] = {}
    reasons = cpu_fallbacks.fallbacks()
    for record in records:
        total = operators.get(record.operator, OperatorTotal(0, 0, 0))
        operators[record.operator] = OperatorTotal(
            total.calls + 1,
            total.device_ps + record.duration_ps,
            total.launch_bound_calls + (record.bound == "launch"),
        )
        if record.bound == "host" and record.queue == "compute":
            known = reasons.get(record.operator)
            reason = known.reason if known else ""
            fallback = fallbacks.get(record.operator, Fallback(0, 0, reason=reason))
            lines = dict.fromkeys((*fallback.lines, record.line))
            fallbacks[record.operator] = Fallback(
                fallback.calls + 1, fallback.ps + record.duration_ps, tuple(lines), reason
            )
    return _machine_snapshot(records=records, spans=spans, operators=operators, fallbacks=fallbacks)


def _snapshot_since_reset() -> TimelineSnapshot:
    calls: dict[str, list[int]] = {}
    for device in range(device_count()):
        for name, total in _C.timeline.totals(device).items():
            sums = calls.setdefault(name, [0, 0, 0])
            sums[0] += total["calls"]
            sums[1] += total["device_ps"]
            sums[2] += total["launch_bound_calls"]
    operators = {name: OperatorTotal(*sums) for name, sums in sorted(calls.items())}
    spans = {device: Span(0, ended_ps) for device, ended_ps in _times().items()}
    fallbacks = {
        name: Fallback(
            total.calls, round(total.device_us * PICOSECONDS_PER_MICROSECOND), reason=total.reason
        )
        for name, total in cpu_fallbacks.fallbacks().items()
    }
    return _machine_snapshot(spans=spans, operators=operators, fallbacks=fallbacks)


def _machine_snapshot(**parts: Any) -> TimelineSnapshot:
    machine = config.current().machine
    assert machine is not None  # or no device would have worked
    overheads = profile(_C.timeline.profile_name(), machine.chip)
    return TimelineSnapshot(
        instance=machine.instance_type,
        chip=machine.chip,
        logical_core_size=machine.logical_core_size,
        profile=overheads.name,
        issue_ps=round(overheads.eager_issue_us * PICOSECONDS_PER_MICROSECOND),
        **parts,
    )


class _ModuleNames:
    """Tells the recorder which module runs; numbers stand for qualified names until `close`.

    A module's name starts at the outermost module that was running when it was first called.
    """

    def __init__(self) -> None:
        self._names = [""]  # number 0: outside of modules
        # By identity, since modules may define what equal means; they are kept, so that it lasts.
        self._numbers: dict[int, int] = {}
        self._modules: list[nn.Module] = []
        self._lock = Lock()
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> list[str]:
        """Stop watching; the names by number."""
        for hook in self._hooks:
            hook.remove()
        self._numbers.clear()
        self._modules.clear()
        return self._names

    def _enter(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if id(module) not in self._numbers:
            with self._lock:
                self._number_tree(module, type(module).__name__)
        _C.timeline.enter_module(self._numbers[id(module)])

    def _leave(self, module: nn.Module, args: Any, result: Any) -> None:
        if torch.compiler.is_compiling():
            return
        _C.timeline.leave_module()

    def _number_tree(self, module: nn.Module, name: str) -> None:
        if id(module) in self._numbers:
            return
        self._names.append(name)
        self._modules.append(module)
        self._numbers[id(module)] = len(self._names) - 1
        # Not `named_modules`, which a module may override.
        for child_name, child in module._modules.items():
            if child is not None:
                self._number_tree(child, f"{name}.{child_name}")
