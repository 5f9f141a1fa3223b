"""Recorded programs as the cost model takes them, and the time they predict.

A workload is what one measurement timed. It is built once and evaluated many times: by
`seconds(stack)` for a stack, which is a cost model and the overheads of a software profile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol

from accuracy.trace import RecordedCall, Recording, TensorUse
from torch_trainium.hardware import costs


@dataclass(frozen=True)
class Stack:
    """A core and the software that drives it."""

    model: costs.CostModel
    profile: costs.Profile


class Workload(Protocol):
    """Something whose time a stack predicts."""

    def seconds(self, stack: Stack) -> float:
        """Predicted time in seconds."""
        ...


@dataclass(frozen=True)
class Eager:
    """Operators issued one by one, until the device has run the last."""

    program: costs.Program

    def seconds(self, stack: Stack) -> float:
        """By the rule of the timeline; a collective occupies the device as an operator does."""
        return stack.model.eager_run(self.program, stack.profile)


@dataclass(frozen=True)
class Repeated:
    """The mean time of eager operators in a loop of `times`, waited for at its end."""

    once: Eager
    times: int = 100

    def seconds(self, stack: Stack) -> float:
        """The time of the loop over its length."""
        return self._loop.seconds(stack) / self.times

    @cached_property
    def _loop(self) -> Eager:
        return Eager(costs.Program(self.once.program.nodes * self.times))


@dataclass(frozen=True)
class Graph:
    """A compiled graph, device time alone."""

    program: costs.Program

    def seconds(self, stack: Stack) -> float:
        """Time on the device."""
        return stack.model.program(self.program).device_us / 1e6


@dataclass(frozen=True)
class Engine:
    """How long one engine is busy in a compiled graph."""

    graph: Graph
    engine: str

    def seconds(self, stack: Stack) -> float:
        """Busy time, at most the time of the graph."""
        return stack.model.program(self.graph.program).engine_us[self.engine] / 1e6


@dataclass(frozen=True)
class Instruction:
    """One instruction of an engine on `columns` elements a lane.

    `follows`: the time until the next one starts, instead of from issue to result.
    """

    engine: str
    columns: float
    cycles: float = 1.0
    follows: bool = False

    def seconds(self, stack: Stack) -> float:
        """Latency of the instruction, or its interval."""
        latency_ns = stack.model.instruction_ns(self.engine, self.columns, self.cycles)
        fixed_ns = stack.model.instruction_ns(self.engine, 0) if self.follows else 0.0
        return (latency_ns - fixed_ns) / 1e9


@dataclass(frozen=True)
class Descriptors:
    """DMA descriptors of one engine, one after the other."""

    bytes: float
    count: float = 1.0
    software: bool = False

    def seconds(self, stack: Stack) -> float:
        """Time of all of them."""
        each = stack.model.descriptor_ns(self.bytes, software=self.software)
        return self.count * each / 1e9


@dataclass(frozen=True)
class Launched:
    """A compiled graph as the host sees it: issued, run, waited for.

    `pieces`: programs that it is cut into, launched one after the other.
    """

    graph: Workload
    pieces: int = 1

    def seconds(self, stack: Stack) -> float:
        """Issue and launch of every piece, then the device."""
        overhead_us = stack.profile.compiled_issue_us + stack.profile.compiled_launch_us
        return self.pieces * overhead_us / 1e6 + self.graph.seconds(stack)


@dataclass(frozen=True)
class LaunchLoop:
    """The mean time of a compiled graph launched over and over, waited for at the end."""

    graph: Workload

    def seconds(self, stack: Stack) -> float:
        """The host issues the next run while the device is busy with one."""
        return max(stack.profile.compiled_issue_us / 1e6, self.graph.seconds(stack))


@dataclass(frozen=True)
class HostRead:
    """The host waits for the device and reads one value."""

    def seconds(self, stack: Stack) -> float:
        """Synchronization and a small copy."""
        return (stack.profile.synchronize_us + stack.profile.host_read_us) / 1e6


@dataclass(frozen=True)
class Fixed:
    """Time that does not depend on the stack."""

    duration_s: float

    def seconds(self, stack: Stack) -> float:
        """The duration."""
        return self.duration_s


@dataclass(frozen=True)
class Transfer:
    """A copy between host and device."""

    bytes: int
    to_device: bool = True
    # Ranks that copy at the same time.
    ranks: int = 1

    def seconds(self, stack: Stack) -> float:
        """Time of the copy."""
        cost = stack.model.transfer(self.bytes, to_device=self.to_device, ranks=self.ranks)
        return cost.device_us / 1e6


@dataclass(frozen=True)
class Exchange:
    """One collective alone."""

    collective: costs.Collective
    bytes: int

    def seconds(self, stack: Stack) -> float:
        """Time on the device."""
        return stack.model.collective(self.collective, self.bytes).device_us / 1e6


@dataclass(frozen=True)
class Sequential:
    """Workloads one after the other, each some number of times."""

    parts: tuple[tuple[float, Workload], ...]

    def seconds(self, stack: Stack) -> float:
        """The sum of the parts."""
        return sum(times * part.seconds(stack) for times, part in self.parts)


def then(*parts: Workload) -> Sequential:
    """The parts one after the other, once each."""
    return Sequential(tuple((1.0, part) for part in parts))


@cache
def eager(recording: Recording, cores_per_chip: int = 4) -> Eager:
    """The recording as operators of eager mode."""
    return Eager(costs.Program(_nodes(recording, cores_per_chip)))


# Every part of a model.
ALL_REGIONS = frozenset({""})


@cache
def graph(
    recording: Recording, cores_per_chip: int = 4, fused: frozenset[str] = frozenset()
) -> Graph:
    """The recording as one compiled graph.

    `fused` names the regions that are one hand-written kernel each; "" is the whole graph.
    """
    nodes = _nodes(recording, cores_per_chip, fused)
    return Graph(costs.Program(nodes, outputs=recording.results))


def eager_collective(collective: costs.Collective, bytes: int) -> Eager:
    """A collective on a dense tensor of `bytes`, issued as an eager operator."""
    shape = costs.TensorShape((bytes,), "uint8")
    call = costs.OperatorCall("collective", (shape,), (shape,), cost_class="collective")
    return Eager(costs.Program((costs.ProgramNode(call, (0,), (1,), collective),)))


_COLLECTIVES = {
    "_c10d_functional::all_reduce": "all_reduce",
    "_c10d_functional::all_gather_into_tensor": "all_gather",
    "_c10d_functional::reduce_scatter_tensor": "reduce_scatter",
    "_c10d_functional::all_to_all_single": "all_to_all",
}


def group_of(kind: str, ranks: int, cores_per_chip: int) -> costs.Collective:
    """A collective over consecutive ranks: a chip is filled before the next one."""
    return costs.Collective(kind, ranks, chips=-(-ranks // cores_per_chip))


def _nodes(
    recording: Recording, cores_per_chip: int, fused: frozenset[str] = frozenset()
) -> tuple[costs.ProgramNode, ...]:
    return tuple(_node(call, cores_per_chip, fused) for call in recording.device_calls())


def _node(call: RecordedCall, cores_per_chip: int, fused: frozenset[str]) -> costs.ProgramNode:
    kind = _COLLECTIVES.get(call.name)
    return costs.ProgramNode(
        call=_operator(
            call.name, _shapes(call.inputs), _shapes(call.outputs), call.written, kind is not None
        ),
        operands=tuple(use.buffer for use in call.inputs),
        results=tuple(use.buffer for use in call.outputs),
        collective=group_of(kind, call.ranks, cores_per_chip) if kind else None,
        fused=fused == ALL_REGIONS or call.region in fused - ALL_REGIONS,
    )


@cache
def _operator(
    name: str,
    inputs: tuple[costs.TensorShape, ...],
    outputs: tuple[costs.TensorShape, ...],
    written: tuple[int, ...],
    is_collective: bool,
) -> costs.OperatorCall:
    cost_class = "collective" if is_collective else None
    return costs.OperatorCall(name, inputs, outputs, written, cost_class)


def _shapes(uses: Sequence[TensorUse]) -> tuple[costs.TensorShape, ...]:
    return tuple(_shape(use.sizes, use.dtype, use.dense, use.permuted) for use in uses)


@cache
def _shape(sizes: tuple[int, ...], dtype: str, dense: bool, permuted: bool) -> costs.TensorShape:
    return costs.TensorShape(sizes, dtype, dense, permuted=permuted)
