"""CPU tensors that a captured graph gives to operators of the device, as eager mode allows.

Only the graph as Dynamo captured it shows them: AOTAutograd writes the copies out, after which they
look like the user's own transfers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from torch_trainium.compile import nodes
from torch_trainium.compile.options import Options

# Transfers that the user has written.
TRANSFERS = frozenset(("to", "neuron", "cuda", "copy_", "type_as", "pin_memory"))


def messages(graph: GraphModule, options: Options) -> list[str]:
    """What to warn of, one sentence for each such tensor.

    Raises:
        RuntimeError: there are some, and the options refuse them.

    """
    if options.cpu_inputs == "allow":
        return []
    found = [
        f"a compiled graph reads {source_name(node)}, {_described(node)} on the CPU, in "
        f"{reader.target} at {nodes.user_line(reader)}"
        for node, reader in _readings(graph)
    ]
    if found and options.cpu_inputs == "error":
        raise RuntimeError(f"{found[0]}. Move it to the device before the call")
    return [
        f"{sentence}, and copies it to the device each time. Move it there before the call"
        for sentence in found
    ]


def _readings(graph: GraphModule) -> Iterator[tuple[Node, Node]]:
    """Inputs on the CPU with more than a number, and the first operator of the device on each."""
    for node in graph.graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or not value.dim():
            continue
        readers = (user for user in node.users if _is_on_device(user) and not _is_transfer(user))
        reader = next(readers, None)
        if reader is not None:
            yield node, reader


def _is_on_device(node: Node) -> bool:
    return any(
        isinstance(leaf, torch.Tensor) and leaf.device.type == nodes.DEVICE_TYPE
        for leaf in tree_leaves(node.meta.get("example_value"))
    )


def _is_transfer(node: Node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name in TRANSFERS


def source_name(node: Node) -> str:
    """What the user calls an input of the graph that Dynamo captured: "rows" of L['rows']."""
    argument = node.meta.get("grapharg")
    source = getattr(argument, "source", None)
    name = source.name if source is not None else node.name
    return re.sub(r"^L\['(\w+)'\]", r"\1", str(name() if callable(name) else name))


def _described(node: Node) -> str:
    value = node.meta["example_value"]
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
