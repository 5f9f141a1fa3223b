"""What a user is told of a graph, or a part of one, that is not compiled."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from torch.fx import GraphModule, Node

from torch_trainium import _C
from torch_trainium.compile import nodes
from torch_trainium.compile.options import Options
from torch_trainium.errors import FallbackWarning, GraphCompileError, RecompileWarning


def refuse(module: GraphModule, name: str, options: Options, node: Node, why: str) -> None:
    """Note that an operator of a graph runs without a program, or raise.

    Raises:
        GraphCompileError: options or TORCH_TRAINIUM_FALLBACK allow only programs. The message names
            the operator, the user's line and the file that has the graph.

    """
    operator_name = str(node.target)
    qualified = getattr(node.target, "name", lambda: operator_name)()
    policy = _policy_of(qualified)
    if options.fallback != "error" and policy != "error":
        if policy == "warn":
            warnings.warn(
                f"{qualified} of {name} is in no program and runs by itself: {why}. "
                f"Called at {nodes.user_line(node)}",
                FallbackWarning,
                stacklevel=2,
            )
        return
    path = save(module, name, options)
    raise GraphCompileError(
        f"{name} cannot be compiled: {qualified} at {nodes.user_line(node)} cannot be expressed as "
        f"a program: {why}. The graph is in {path}. To run such operators by themselves, allow it "
        f"by TORCH_TRAINIUM_FALLBACK=warn and options={{'fallback': 'operator'}}; to run the whole "
        f"graph eagerly, options={{'fallback': 'eager'}}."
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


def warn_of_recompiles(name: str, count: int, what_varies: str, line: str) -> None:
    """Say that a graph is compiled for one shape after the other."""
    warnings.warn(
        f"{name} was compiled for {count} kinds of inputs: {what_varies} goes on changing. Pad it "
        f"to a few lengths, or run this part eagerly. The graph starts at {line}",
        RecompileWarning,
        stacklevel=2,
    )
