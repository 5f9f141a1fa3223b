"""Nodes of a graph as values of a program that is being written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from torch_trainium.compile import graph_forms, higher_order, nodes, refusals
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


class OperatorRun(NamedTuple):
    """One operator as the program runs it, with the arrays that it reads and gives."""

    target: torch._ops.OpOverload
    read: tuple[Value, ...]
    given: tuple[Value, ...]


class NodeRefusedError(LoweringError):
    """A node that is in no program; `node` says which."""

    def __init__(self, node: Node, reason: Exception) -> None:
        super().__init__(f"{node.target}: {reason}")
        self.node = node


class Interpreter:
    """Writes nodes into a program.

    Attributes:
        x: the program.
        runs: its operators in the order in which they run, loops unrolled, for the cost model.

    """

    def __init__(self, x: Builder) -> None:
        self.x = x
        self.runs: list[OperatorRun] = []

    def value_of(self, node: Node, env: dict[Node, Any]) -> Any:
        """What a node gives; numbers of shapes are Python's.

        Raises:
            NodeRefusedError: it cannot be expressed as a program.

        """
        args, kwargs = map_arg((node.args, node.kwargs), lambda source: env[source])
        try:
            return self._call(node, _plain(args), _plain(kwargs))
        except (
            LoweringError,
            TypeError,
            ValueError,
            RuntimeError,
            RecursionError,
            IndexError,
            self.x.ir.MLIRError,
        ) as error:
            raise NodeRefusedError(node, error) from error

    def body(self, module: GraphModule, arguments: Sequence[Any]) -> list[Any]:
        """What a graph that is an operator's argument gives for these arguments.

        Raises:
            LoweringError: something in there would have to run by itself.

        """
        graph = module.graph
        env: dict[Node, Any] = dict(
            zip(graph.find_nodes(op="placeholder", sort=True), arguments, strict=True)
        )
        for node in graph.nodes:
            if node.op == "get_attr":
                env[node] = self._constant(nodes.attribute(module, str(node.target)))
            elif node.op == "call_function":
                if why := refusals.refusal_in_body(node):
                    raise LoweringError(why)
                env[node] = self.value_of(node, env)
        returned = map_arg(graph.output_node().args[0], env.__getitem__)
        return list(returned) if isinstance(returned, (list, tuple)) else [returned]

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """What is written within runs so many times."""
        start = len(self.runs)
        yield
        self.runs += self.runs[start:] * (times - 1)

    def _constant(self, attribute: Any) -> Any:
        """What a body has as an attribute: a graph, or a number that tracing made a tensor."""
        if not isinstance(attribute, torch.Tensor):
            return attribute
        if attribute.numel() != 1:
            raise LoweringError("a body captures a tensor that is not among its arguments")
        return self.x.constant(attribute.item(), attribute.dtype, attribute.shape)

    def _call(self, node: Node, args: Any, kwargs: Any) -> Any:
        target = node.target
        if target in nodes.SHAPE_QUERIES:
            return _shape_query(target, *args)
        if target in higher_order.LOWERINGS:
            return higher_order.LOWERINGS[target](self, *args, **kwargs)
        if not isinstance(target, torch._ops.OpOverload):
            return target(*args, **kwargs)  # type: ignore[operator]
        lower_call: Any = graph_forms.LOWERINGS.get(target, dispatch.lower_call)
        given = lower_call(self.x, target, tuple(args), kwargs)
        _agree(node, given)
        self.runs.append(OperatorRun(target, _values((args, kwargs)), _values(given)))
        return given


def _values(tree: Any) -> tuple[Value, ...]:
    return tuple(leaf for leaf in tree_leaves(tree) if isinstance(leaf, Value))


def _plain(argument: Any) -> Any:
    """Arguments as operators get them: lists, and no device, which values do not have."""
    if isinstance(argument, dict):
        return {name: _plain(value) for name, value in argument.items()}
    if isinstance(argument, (list, tuple)):
        return [_plain(item) for item in argument]
    return torch.device("cpu") if isinstance(argument, torch.device) else argument


def _shape_query(target: Any, value: Any, *dims: int) -> Any:
    if target is aten.sym_size.int:
        return value.shape[dims[0]]
    if target is aten.sym_size.default:
        return list(value.shape)
    if target is aten.sym_numel.default:
        return value.size
    raise LoweringError("a program has no strides and offsets to ask for")


def _agree(node: Node, given: Any) -> None:
    """A lowering with another dtype or shape than PyTorch's is wrong, whatever it computes."""
    expected = node.meta.get("val")
    pairs = zip(
        given if isinstance(given, (list, tuple)) else [given],
        expected if isinstance(expected, (list, tuple)) else [expected],
        strict=False,
    )
    for value, fake in pairs:
        if not isinstance(value, Value) or not isinstance(fake, torch.Tensor):
            continue
        same = len(value.shape) == fake.dim() and all(
            not isinstance(size, int) or size == length
            for size, length in zip(fake.shape, value.shape, strict=True)
        )
        if value.dtype is not fake.dtype or not same:
            raise LoweringError(
                f"the lowering gives {value.dtype} {list(value.shape)}, and PyTorch "
                f"{fake.dtype} {list(fake.shape)}"
            )
