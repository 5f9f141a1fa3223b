"""What the partition and the lowering need to know of a node of an FX graph."""

from __future__ import annotations

import enum
import operator
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch._prims.rng_prims import run_and_save_rng_state
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from torch_trainium.compile import graph_forms, higher_order
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, dtypes, registry
from torch_trainium.neuron.observe import is_internal

DEVICE_TYPE = "neuron"
aten = torch.ops.aten

# What asks a tensor for its shape, which a program knows when it is written.
SHAPE_QUERIES = (
    aten.sym_size.int,
    aten.sym_size.default,
    aten.sym_stride.int,
    aten.sym_stride.default,
    aten.sym_numel.default,
    aten.sym_storage_offset.default,
)
# Where an input's metadata has what the user calls it.
SOURCE_NAME = "source_name"
# What moves data between host and device, which is no program's work.
TRANSFERS = (aten._to_copy.default, aten.copy_.default)

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')


class Place(enum.Enum):
    """Where a node runs."""

    PROGRAM = "program"
    EAGER = "eager"
    ANYWHERE = "anywhere"


def place_of(node: Node) -> Place:
    """Whether a node can be part of a program.

    Numbers computed from shapes are, wherever they are asked for.
    """
    target = node.target
    if target in higher_order.LOWERINGS:
        given = list(tensors_of(node))
        return Place.PROGRAM if not given or any(map(is_on_device, given)) else Place.EAGER
    if not isinstance(target, torch._ops.OpOverload):
        is_python = callable(target) and not isinstance(target, torch._ops.OperatorBase)
        return Place.ANYWHERE if is_python else Place.EAGER
    if target in SHAPE_QUERIES:
        return Place.ANYWHERE
    gives_device_tensors = any(map(is_on_device, tensors_of(node)))
    if target is aten.copy_.default:
        return Place.PROGRAM if gives_device_tensors and not is_transfer(node) else Place.EAGER
    if not gives_device_tensors or target._schema.is_mutable or is_transfer(node):
        return Place.EAGER
    if node.meta.get("unbacked_bindings"):  # sizes that depend on data
        return Place.EAGER
    return Place.PROGRAM if has_lowering(target) and not dtype_refusal(node) else Place.EAGER


def dtype_refusal(node: Node) -> str:
    """Why programs have no tensors of a dtype that a node takes or gives; "" where they have."""
    missing = dtypes_of(node) - dtypes.ELEMENT_TYPES.keys()
    return f"programs have no {', '.join(map(dtype_name, missing))}" if missing else ""


def has_lowering(target: Any) -> bool:
    """Whether an operator can be expressed as a program at all."""
    if target in graph_forms.LOWERINGS:
        return True
    try:
        return dispatch.functional_form(target) is None and dispatch.origin(target) != ""
    except LoweringError:
        return False


def source_name(node: Node) -> str:
    """What the user calls an input of the graph, or the graph where that is not known."""
    return str(node.meta.get(SOURCE_NAME, f"argument {node.name}"))


def is_host_number(node: Node) -> bool:
    """Whether a node's results are zero-dim CPU tensors, which a program can compute as well."""
    given = list(tensors_of(node))
    are_numbers = all(tensor.device.type == "cpu" and not tensor.dim() for tensor in given)
    return bool(given) and are_numbers and has_lowering(node.target)


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers, whose order matters."""
    target = node.target
    if target is run_and_save_rng_state:
        return True
    return (
        isinstance(target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in target.tags
    )


def is_view(node: Node) -> bool:
    """Whether a node's result is its first argument's memory, seen otherwise."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.is_view


def changes_dtype(node: Node) -> bool:
    """Whether a view sees its memory in another dtype, as `view_as_real` does."""
    return len(dtypes_of(node)) > 1


def is_write(node: Node) -> bool:
    """Whether a node writes into an input of the graph."""
    return node.target is aten.copy_.default


def attribute(module: GraphModule, path: str) -> Any:
    """What a `get_attr` node with this target is."""
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def tensors_of(node: Node) -> Iterator[torch.Tensor]:
    """The fake tensors that a node gives."""
    return (leaf for leaf in tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor))


def operator_name(node: Node) -> str:
    """What the operator of a node is called, such as "aten::add.Tensor"."""
    target = node.target
    is_overload = isinstance(target, torch._ops.OpOverload)
    return registry.qualified_name(target) if is_overload else str(target)


def dtypes_of(node: Node) -> set[torch.dtype]:
    """The dtypes of the tensors that a node takes and gives."""
    return {
        tensor.dtype for source in (*node.all_input_nodes, node) for tensor in tensors_of(source)
    }


def dtype_name(dtype: torch.dtype) -> str:
    """What PyTorch calls a dtype, such as "float32"."""
    return str(dtype).removeprefix("torch.")


def user_frame(node: Node) -> tuple[str, int, str] | None:
    """File, line and function of the innermost frame of the user that a node comes from."""
    frames = list(_FRAME.finditer(node.stack_trace or ""))
    if not frames:
        return None
    of_user = [frame for frame in frames if not is_internal(frame["file"])]
    found = (of_user or frames)[-1]
    return found["file"], int(found["line"]), found["function"].strip()


def user_line(node: Node) -> str:
    """The same, as "model.py:12 (forward)"."""
    frame = user_frame(node)
    if frame is None:
        return "a line that was not recorded"
    file, line, function = frame
    return f"{file}:{line} ({function})"


def is_on_device(tensor: torch.Tensor) -> bool:
    """Whether a tensor, which may be fake, is on a device of ours."""
    return tensor.device.type == DEVICE_TYPE


def is_transfer(node: Node) -> bool:
    """Whether a copy goes from one device to another; a CPU number is no tensor."""
    if node.target not in TRANSFERS:
        return False
    given = [
        value
        for argument in node.args
        if isinstance(argument, Node)
        for value in tensors_of(argument)
    ]
    devices = {t.device for t in given if t.device.type != "cpu" or t.dim() > 0}
    return len(devices | {t.device for t in tensors_of(node)}) > 1


def is_getitem(node: Node) -> bool:
    """Whether a node picks one of several results."""
    return node.target is operator.getitem
