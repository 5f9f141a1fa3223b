"""What operators, compiled graphs, copies and collectives cost on a Trainium core.

The formulas are in C++ (csrc/timeline); this module names shapes, dtypes and operators in
PyTorch's words and loads the constants from the data files.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from types import MappingProxyType
from typing import Any

from torch_trainium.hardware import _costs
from torch_trainium.hardware.facts import DATA, chips, read_facts
from torch_trainium.hardware.operator_classes import cost_class_of
from torch_trainium.hardware.profiles import Profile, profile, profile_names

__all__ = [
    "Collective",
    "Cost",
    "CostModel",
    "OperatorCall",
    "Profile",
    "Program",
    "ProgramNode",
    "TensorShape",
    "calibrated_constants",
    "constants",
    "cost_model",
    "eager_time",
    "profile",
    "profile_names",
]

# dtype: how the engines see it, bytes an element
ELEMENTS: Mapping[str, tuple[str, float]] = MappingProxyType(
    {
        "float32": ("float32", 4),
        "tf32": ("tf32", 4),
        "bfloat16": ("bfloat16", 2),
        "float16": ("float16", 2),
        "float8_e4m3": ("float8", 1),
        "float8_e4m3fn": ("float8", 1),
        "float8_e4m3fnuz": ("float8", 1),
        "float8_e5m2": ("float8", 1),
        "float8_e5m2fnuz": ("float8", 1),
        "float8_e8m0fnu": ("int8", 1),
        "mxfp8": ("mxfloat8", 1),
        "mxfp4": ("mxfloat4", 1),
        "float4_e2m1fn_x2": ("mxfloat4", 1),
        "bool": ("int8", 1),
        "uint8": ("int8", 1),
        "int8": ("int8", 1),
        "int16": ("int16", 2),
        "uint16": ("int16", 2),
        "int32": ("int32", 4),
        "uint32": ("int32", 4),
        "int64": ("int64", 8),
        "uint64": ("int64", 8),
        "float64": ("float64", 8),
        "complex32": ("complex", 4),
        "complex64": ("complex", 8),
        "complex128": ("complex", 16),
    }
)

PICOSECONDS_A_MICROSECOND = 1_000_000


# cost class, operands (sizes, element, bytes, dense, permuted, written, on the host), result bytes
CallDescription = tuple[str, list[tuple[Any, ...]], int]


@dataclass(frozen=True)
class TensorShape:
    """A tensor as the cost model sees it: sizes and dtype, no data.

    `dense`: its elements are adjacent in memory, in any order of dimensions; `permuted`: the last
    dimension is not the innermost.
    """

    sizes: tuple[int, ...]
    dtype: str = "bfloat16"
    dense: bool = True
    on_host: bool = False
    permuted: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in ELEMENTS:
            raise ValueError(f"no dtype is called {self.dtype!r}; there are {', '.join(ELEMENTS)}")

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.sizes)

    @property
    def bytes(self) -> int:
        """The size of the elements in memory."""
        return int(self.elements * ELEMENTS[self.dtype][1])


@dataclass(frozen=True)
class OperatorCall:
    """One call of an ATen operator.

    `inputs`: its tensors in the order of its arguments, lists spread out, absent ones left out,
    those it writes among them; `written`: positions in `inputs` that it writes (in place or
    `out=`); `outputs`: what it allocates. `cost_class` overrides the table's class of the name.
    """

    name: str
    inputs: tuple[TensorShape, ...]
    outputs: tuple[TensorShape, ...] = ()
    written: tuple[int, ...] = ()
    cost_class: str | None = None
    description: CallDescription = field(init=False, repr=False, compare=False)
    record: _costs.Call = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        operands = [
            (
                shape.sizes,
                ELEMENTS[shape.dtype][0],
                int(ELEMENTS[shape.dtype][1]),
                shape.dense,
                shape.permuted,
                position in self.written,
                shape.on_host,
            )
            for position, shape in enumerate(self.inputs)
        ]
        name = self.cost_class or cost_class_of(self.name)
        object.__setattr__(self, "cost_class", name)
        result_bytes = sum(shape.bytes for shape in self.outputs)
        object.__setattr__(self, "description", (name, operands, result_bytes))
        object.__setattr__(self, "record", _costs.Call(name, operands, result_bytes))


@dataclass(frozen=True)
class Collective:
    """A collective and who takes part: `ranks` evenly over `chips`, which lie in `nodes`.

    `kind`: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send_receive.
    """

    kind: str
    ranks: int
    chips: int = 1
    nodes: int = 1


@dataclass(frozen=True)
class ProgramNode:
    """One operator of a graph; `operands` and `results` identify tensors across the graph.

    `operands` has one identity for each of the call's inputs, and `results` names what the call
    allocates and what it writes in place. A call of class `collective` has
    the tensor it reduces as input and its result as output. `fused`: it belongs to the hand-written
    kernel of the node before.
    """

    call: OperatorCall
    operands: tuple[int, ...]
    results: tuple[int, ...]
    collective: Collective | None = None
    fused: bool = False


@dataclass(frozen=True)
class Program:
    """A compiled graph: nodes in an order in which they can run, and the tensors that leave it.

    A tensor that no node produces is a parameter or an input of the graph and lies in HBM.
    """

    nodes: tuple[ProgramNode, ...]
    outputs: frozenset[int] = frozenset()

    @cached_property
    def record(self) -> _costs.Program:
        """The graph as the C++ model takes it."""
        return _costs.Program([(node.call.record, *rest) for node, *rest in self._rows()])

    def descriptions(self) -> list[tuple[Any, ...]]:
        """The same as plain numbers and names, for the timeline."""
        return [(node.call.description, *rest) for node, *rest in self._rows()]

    def _rows(self) -> list[tuple[Any, ...]]:
        """Each node with its producers and its role, views resolved to what they show."""
        producer: dict[int, int] = {}
        nodes: list[tuple[ProgramNode, list[int]]] = []
        for node in self.nodes:
            sources = [producer.get(operand, -1) for operand in node.operands]
            if node.call.cost_class == "free":
                shown = sources[0] if sources else -1
                producer.update(dict.fromkeys(node.results, shown))
                continue
            producer.update(dict.fromkeys(node.results, len(nodes)))
            nodes.append((node, sources))
        leaving = {producer[tensor] for tensor in self.outputs if tensor in producer}
        rows: list[tuple[Any, ...]] = []
        for i, (node, sources) in enumerate(nodes):
            with_whom = node.collective or Collective("all_reduce", 1)
            group = (with_whom.ranks, with_whom.chips, with_whom.nodes)
            rows.append((node, sources, i in leaving, node.fused, with_whom.kind, group))
        return rows


@dataclass(frozen=True)
class Cost:
    """Device time of a program, what its engines are busy with, and what bounds it."""

    device_us: float
    engine_us: Mapping[str, float]
    flops: int
    hbm_bytes: int
    bound: str

    @classmethod
    def of(cls, cost: _costs.Cost) -> "Cost":
        """From the integer picoseconds of C++."""
        times = (ps / PICOSECONDS_A_MICROSECOND for ps in cost.engine_ps)
        return cls(
            device_us=cost.device_ps / PICOSECONDS_A_MICROSECOND,
            engine_us=MappingProxyType(dict(zip(_costs.ENGINES, times, strict=True))),
            flops=cost.flops,
            hbm_bytes=cost.hbm_bytes,
            bound=cost.bound,
        )


class CostModel:
    """The cost model of one chip kind at one logical core size."""

    def __init__(self, constants: Mapping[str, float]) -> None:
        self.constants = MappingProxyType(dict(constants))
        self._model = _costs.CostModel(self.constants)

    def eager(self, call: OperatorCall) -> Cost:
        """The operator as a program of its own, inputs and results in HBM."""
        return Cost.of(self._model.eager(call.record))

    def program(self, program: Program) -> Cost:
        """One compiled graph: engines overlap, and intermediates that fit stay in SBUF."""
        return Cost.of(self._model.program(program.record))

    def eager_run(self, program: Program, overheads: Profile) -> float:
        """Seconds that the nodes take as eager operators, by the rule of `eager_time`."""
        return self._model.eager_run_ps(program.record, overheads.overheads_us()) / 1e12

    def instruction_ns(self, engine: str, columns: float, cycles: float = 1) -> float:
        """One instruction on `columns` elements a lane, `cycles` each, from issue to result."""
        return self._model.instruction_ns(engine, columns, cycles)

    def descriptor_ns(self, bytes: float, *, software: bool = False) -> float:
        """One DMA descriptor of `bytes` on one engine."""
        return self._model.descriptor_ns(bytes, software)

    def transfer(self, bytes: int, *, to_device: bool = True, ranks: int = 1) -> Cost:
        """A copy of `bytes` between pinned host memory and HBM, while `ranks` copy at once."""
        return Cost.of(self._model.transfer(bytes, to_device, ranks))

    def collective(self, collective: Collective, bytes: int) -> Cost:
        """A collective on a tensor of `bytes`: the result of an all-gather, else the input."""
        group = (collective.ranks, collective.chips, collective.nodes)
        return Cost.of(self._model.collective(collective.kind, bytes, group))


@cache
def _cores() -> dict[str, dict[str, Any]]:
    return read_facts("cores.toml")


@cache
def calibrated_constants() -> Mapping[str, float]:
    """The fitted constants of calibrated.toml."""
    tables = tomllib.loads((DATA / "calibrated.toml").read_text(encoding="utf-8"))
    return MappingProxyType({name: c["value"] for name, c in tables["constants"].items()})


def constants(chip: str = "trn2", logical_core_size: int = 2) -> dict[str, float]:
    """Every constant of the model by name, from the data files.

    Raises:
        ValueError: an unknown chip or core size.

    """
    if chip not in chips():
        raise ValueError(f"no chip is called {chip!r}; there are {', '.join(chips())}")
    sizes = chips()[chip].logical_core_sizes
    if logical_core_size not in sizes:
        raise ValueError(f"a logical core has {' or '.join(map(str, sizes))} physical cores")
    return {
        **_cores()[chip],
        **calibrated_constants(),
        "physical_cores": logical_core_size,
    }


def cost_model(
    chip: str = "trn2",
    logical_core_size: int = 2,
    overrides: Mapping[str, float] | None = None,
) -> CostModel:
    """The model of one logical core of `logical_core_size` physical cores of `chip`.

    `overrides` replaces values of the data files by name.

    Raises:
        ValueError: an unknown chip, core size or constant.

    """
    return CostModel({**constants(chip, logical_core_size), **(overrides or {})})


def eager_time(model: CostModel, overheads: Profile, calls: Iterable[OperatorCall]) -> float:
    """Seconds from the first issue to the end of the last call, by the timeline's rule.

    The host issues calls one by one; the device runs them in order, each no earlier than its
    issue plus the launch latency. Views cost nothing.
    """
    nodes = tuple(ProgramNode(call, (-1,) * len(call.inputs), ()) for call in calls)
    return model.eager_run(Program(nodes), overheads)
