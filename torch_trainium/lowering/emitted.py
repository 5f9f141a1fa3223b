"""Which StableHLO operations a program consists of, in the words of the legality rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Operations whose legality depends on what their region computes.
FOLDS = ("reduce", "reduce_window")


def operations_of(module: bytes) -> set[str]:
    """The names of a module's operations, such as "add" and "reduce:maximum"."""
    from jaxlib.mlir import ir

    from torch_trainium.engines import mlir

    with mlir.context(), ir.Location.unknown():
        return set(_names(ir.Module.parse(module).operation))


def _names(operation: Any) -> Iterator[str]:
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                dialect, _, name = inner.operation.name.partition(".")
                if dialect == "chlo":
                    # Functions that become elementwise arithmetic.
                    continue
                if dialect == "stablehlo" and name != "return":
                    if name in FOLDS:
                        yield f"{name}:{_combiner(inner)}"
                        continue
                    yield name
                    if name in ("scatter", "sort", "select_and_scatter"):
                        continue
                yield from _names(inner.operation)


def _combiner(fold: Any) -> str:
    body = [op.operation.name.partition(".")[2] for op in fold.regions[0].blocks[0].operations]
    return body[0] if len(body) == 2 else "several"
