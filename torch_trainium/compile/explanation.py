"""What became of a function under torch.compile: graphs, breaks, programs, times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from torch_trainium import config
from torch_trainium.compile import backend, nodes
from torch_trainium.compile.graph import CompiledGraph
from torch_trainium.compile.program_piece import ProgramPiece
from torch_trainium.hardware import costs


@dataclass(frozen=True)
class Break:
    """Why Dynamo ended a graph, and the user's line where it did."""

    reason: str
    line: str


@dataclass(frozen=True)
class GraphReport:
    """One graph.

    Attributes:
        name: what programs and the timeline call it.
        line: the user's line that it starts at.
        operators: how many it has.
        programs: how many were compiled.
        refusals: operators that are in no program: name, line, reason.
        compile_seconds: to write and compile the programs, or to find them on disk.
        predicted_us: device time of all programs by target, such as "trn2".

    """

    name: str
    line: str
    operators: int
    programs: int
    refusals: tuple[tuple[str, str, str], ...]
    compile_seconds: float
    predicted_us: Mapping[str, float]


@dataclass(frozen=True)
class Explanation:
    """What `explain` found; `print` shows it.

    Attributes:
        graphs: in the order in which they were compiled.
        breaks: what separates them.
        peak_bytes: the most device memory that was allocated at once during the call.

    """

    graphs: tuple[GraphReport, ...]
    breaks: tuple[Break, ...]
    peak_bytes: int

    def __str__(self) -> str:
        lines = [f"{len(self.graphs)} graphs, {len(self.breaks)} breaks"]
        for graph in self.graphs:
            times = ", ".join(f"{us:.0f} us on {name}" for name, us in graph.predicted_us.items())
            lines.append(
                f"  {graph.name} at {graph.line}: {graph.operators} operators, "
                f"{graph.programs} programs in {graph.compile_seconds:.2f} s, predicted {times}"
            )
            for name, line, reason in graph.refusals:
                lines.append(f"    not in a program: {name} at {line}: {reason}")
        lines += [f"  break at {found.line}: {found.reason}" for found in self.breaks]
        lines.append(f"peak memory {self.peak_bytes / 2**20:.1f} MiB")
        return "\n".join(lines)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compile and call a function, and tell what became of it.

    The function is called twice: once by Dynamo, which looks for breaks, and once compiled. What
    was compiled before is forgotten, as by `torch.compiler.reset`. A backward pass is part of the
    explanation if the function calls it.

    Args:
        function: a function or module, not compiled.
        args, kwargs: what to call it with.

    """
    broken = torch._dynamo.explain(function)(*args, **kwargs)
    torch._dynamo.reset()
    found: list[CompiledGraph] = []
    with ExitStack() as stack:
        backend.observers.append(found.append)
        stack.callback(backend.observers.pop)
        torch.neuron.reset_peak_memory_stats()  # type: ignore[attr-defined]
        torch.compile(function, backend="neuron")(*args, **kwargs)
        peak_bytes = torch.neuron.max_memory_allocated()  # type: ignore[attr-defined]
    breaks = tuple(
        Break(reason.reason, _line(reason.user_stack))
        for reason in broken.break_reasons
        if reason.graph_break
    )
    return Explanation(tuple(map(_report, found)), breaks, peak_bytes)


def _report(graph: CompiledGraph) -> GraphReport:
    pieces = [piece for piece in graph.pieces if isinstance(piece, ProgramPiece)]
    compiled = [program for piece in pieces for program in piece.programs]
    machine = config.current().machine
    core_size = machine.logical_core_size if machine else 2
    predicted = {
        chip: sum(model.program(program.cost).device_us for program in compiled)
        for chip, model in ((c, costs.cost_model(c, core_size)) for c in ("trn2", "trn3"))
    }
    return GraphReport(
        graph.name,
        graph.line,
        sum(node.op == "call_function" for node in graph.module.graph.nodes),
        sum(piece.compiles for piece in pieces),
        tuple(
            (nodes.operator_name(r.node), nodes.user_line(r.node), r.why) for r in graph.refusals
        ),
        sum(program.seconds for program in compiled),
        predicted,
    )


def _line(stack: Any) -> str:
    if not stack:
        return "a line that was not recorded"
    frame = stack[-1]
    return f"{frame.filename}:{frame.lineno} ({frame.name})"
