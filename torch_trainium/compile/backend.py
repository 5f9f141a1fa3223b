"""The Dynamo backend "neuron": from a graph that Dynamo captured to callables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.descriptors import PlainAOTInput
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from torch_trainium.compile import host_inputs, nodes
from torch_trainium.compile import options as compile_options
from torch_trainium.compile.graph import CompiledGraph
from torch_trainium.compile.options import Options
from torch_trainium.errors import InputCopyWarning

# Called with every graph that is compiled; who explains what happened adds itself.
observers: list[Callable[[CompiledGraph], None]] = []


def neuron(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """What `torch.compile(backend="neuron")` does with each graph that it captures.

    Args:
        graph: as Dynamo captured it.
        example_inputs: fake tensors, and numbers.
        mode: a key of `options.MODES`.
        options: see `options.Options`.

    Raises:
        ValueError: a mode or an option that does not exist.

    """
    chosen = compile_options.read(mode, options)
    untold = host_inputs.messages(graph, chosen)
    names = tuple(map(host_inputs.source_name, graph.graph.find_nodes(op="placeholder")))
    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=partial(_compile, "forward", chosen, names),
        bw_compiler=partial(_compile, "backward", chosen, names),
        inference_compiler=partial(_compile, "inference", chosen, names),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(graph, example_inputs)
    return _telling(untold, compiled) if untold else compiled


def _telling(messages: list[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which warns on its first call: Dynamo swallows warnings while it compiles."""

    def call(*args: Any) -> Any:
        while messages:
            warnings.warn(messages.pop(0), InputCopyWarning, stacklevel=2)
        return function(*args)

    return torch._dynamo.disable(call)  # type: ignore[no-any-return,no-untyped-call]


def _compile(
    kind: str,
    options: Options,
    names: Sequence[str],
    module: GraphModule,
    example_inputs: Sequence[torch.Tensor],
) -> CompiledGraph:
    for node in module.graph.find_nodes(op="placeholder"):
        described = node.meta.get("desc")
        if isinstance(described, PlainAOTInput) and described.idx < len(names):
            node.meta[nodes.SOURCE_NAME] = names[described.idx]
    made = CompiledGraph(module, kind, options)
    for observer in observers:
        observer(made)
    return made
