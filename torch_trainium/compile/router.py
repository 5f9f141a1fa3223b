"""The backend that `torch.compile` takes where the user names none: by the device of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from torch_trainium.compile import backend

DEVICE_TYPE = "neuron"


def by_device(graph: GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
    """`neuron` for a graph with a tensor on the device, Inductor for any other."""
    if runs_on_device(graph, example_inputs):
        return backend.neuron(graph, example_inputs, **kwargs)
    mode, options = kwargs.get("mode"), kwargs.get("options")
    inductor = torch._TorchCompileInductorWrapper(mode, options, dynamic=None)  # type: ignore[no-untyped-call]
    return inductor(graph, example_inputs)


def runs_on_device(graph: GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether an input, a tensor of the module or a node's result is on the device."""
    results = (
        node.meta.get("example_value", node.meta.get("val"))
        for node in graph.graph.nodes
        if node.op != "output"
    )
    held = (*graph.parameters(), *graph.buffers())
    return any(_is_on_device(value) for value in (*example_inputs, *held, *results))


def _is_on_device(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_on_device, value))
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_TYPE
