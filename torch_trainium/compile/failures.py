"""What a user is told of a graph, or a part of one, that is not compiled."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

from torch.fx import GraphModule, Node

from torch_trainium import _C
from torch_trainium.compile import nodes
from torch_trainium.compile.options import Options
from torch_trainium.compile.refusals import Refusal
from torch_trainium.errors import (
    BucketError,
    FallbackWarning,
    GraphCompileError,
    GraphCutWarning,
    GraphFallbackError,
    RecompileWarning,
)


def refuse(module: GraphModule, name: str, options: Options, refusal: Refusal) -> None:
    """Warn that an operator of a graph runs without a program, or raise.

    A CPU fallback warns when it runs, with its bytes and its time.

    Raises:
        GraphCompileError: options allow only programs, or the fallback policy forbids this one. The
            message names the operator, its dtypes, the user's line and the file with the graph.

    """
    node = refusal.node
    operator_name = nodes.operator_name(node)
    forbidden = refusal.is_cpu_fallback and _policy_of(operator_name) == "error"
    if options.fallback != "error" and not forbidden:
        if not refusal.is_cpu_fallback:
            warnings.warn(
                f"{operator_name} is in no program of {name} and runs by itself between two: "
                f"{refusal.why}. Called at {nodes.user_line(node)}",
                GraphCutWarning,
                stacklevel=2,
            )
        return
    path = save(module, name, options)
    given = ", ".join(sorted(map(nodes.dtype_name, nodes.dtypes_of(node))))
    where = f"{operator_name} on {given} at {nodes.user_line(node)}"
    if forbidden:
        raise GraphFallbackError(
            f"{name} cannot be compiled: {where} has no program on the chip: {refusal.why}. It "
            f'would run on the CPU, which the fallback policy "error" refuses; '
            f'torch.neuron.set_fallback("warn") lets it. The graph is in {path}'
        )
    raise GraphCompileError(
        f"{name} cannot be compiled: {where} is in no program: {refusal.why}. The graph is in "
        f"{path}. To run such operators by themselves, options={{'fallback': 'operator'}}; to run "
        f"the whole graph eagerly, options={{'fallback': 'eager'}}"
    )


def _policy_of(name: str) -> str:
    """What `torch.neuron.set_fallback` says of an operator: allow, warn or error."""
    otherwise, of_operator = _C.fallbacks.policies()
    chosen = of_operator.get(name, otherwise)
    members = _C.fallbacks.Policy.__members__.items()
    return next(text for text, policy in members if policy == chosen)


def fail(module: GraphModule, name: str, line: str, options: Options, error: Exception) -> None:
    """Warn that a graph runs eagerly because the compiler failed, or raise.

    Raises:
        GraphCompileError: options do not allow that.

    """
    path = save(module, name, options)
    what = f"{name}, which starts at {line}, cannot be compiled: {error}. The graph is in {path}"
    if options.fallback != "eager":
        raise GraphCompileError(
            f"{what}. To run it eagerly instead, options={{'fallback': 'eager'}}"
        ) from error
    warnings.warn(f"{what}. It runs eagerly", FallbackWarning, stacklevel=2)


def save(module: GraphModule, name: str, options: Options) -> Path:
    """Write a graph to a file that a person can read."""
    folder = Path(options.debug_folder or tempfile.mkdtemp(prefix="torch_trainium_"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace('/', '_').replace(' ', '_')}.txt"
    path.write_text(module.print_readable(print_output=False), encoding="utf-8")
    return path


def expect_bucket(
    name: str, line: str, buckets: Sequence[int], node: Node, dim: int, length: int
) -> None:
    """Refuse a length for which no program is wanted.

    Raises:
        BucketError: it is none of the buckets.

    """
    if length not in buckets:
        raise BucketError(
            f"dimension {dim} of {nodes.source_name(node)} is {length} long, and options="
            f"{{'buckets': {list(buckets)}}} of {name} has no such length. Pad it, as "
            f"torch_trainium.compile.BucketCollator does, or add the length. The graph starts at "
            f"{line}"
        )


def warn_of_recompiles(name: str, count: int, what_varies: str, line: str) -> None:
    """Say that a graph is compiled for one shape after the other."""
    warnings.warn(
        f"{name} was compiled for {count} kinds of inputs: {what_varies} goes on changing. Pad it "
        f"to a few lengths, or run this part eagerly. The graph starts at {line}",
        RecompileWarning,
        stacklevel=2,
    )
