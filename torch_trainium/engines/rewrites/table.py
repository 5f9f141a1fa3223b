"""The rewrites: which operations they replace, in any module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jaxlib.mlir import ir

from torch_trainium.engines.rewrites import convolution, dot, scan, top_k

# By operation: replaces one, with the insertion point before it, or says that it does not.
TABLE: dict[str, Callable[[Any], bool]] = {
    "chlo.top_k": top_k.rewrite,
    "stablehlo.concatenate": scan.rewrite,
    "stablehlo.convolution": convolution.rewrite,
    "stablehlo.dot_general": dot.rewrite,
}


def rewrite(module: Any) -> None:
    """Replace what the table names in a module, where PyTorch's kernels take less time."""
    for operation in list(_operations(module.operation)):
        with ir.InsertionPoint(operation):
            TABLE[operation.name](operation)


def _operations(parent: Any) -> Iterator[Any]:
    """The operations that the table names, those inside of others as well."""
    for region in parent.regions:
        for block in region.blocks:
            for operation in block.operations:
                yield from _operations(operation.operation)
                if operation.operation.name in TABLE:
                    yield operation
