"""What the chips' compiler takes of a program: `data/legality.toml`, applied. Loads no jaxlib."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import torch

from torch_trainium.lowering import dtypes

TARGETS = ("trn2", "trn3")


@dataclass(frozen=True)
class Rules:
    """What one target takes.

    Attributes:
        operations: StableHLO operations that are known to compile; what a fold combines with
            follows a colon, as in "reduce:add".
        element_types: element types that exist there.
        reasons: why an operation or element type is refused, where that is documented.

    """

    operations: frozenset[str]
    element_types: frozenset[str]
    reasons: dict[str, str]

    def refusals(self, operations: Iterable[str]) -> list[str]:
        """A sentence for each of these operations that the target does not take."""
        return [
            self.reasons.get(operation.partition(":")[0]) or f"{operation} is not known to compile"
            for operation in sorted(operations)
            if operation not in self.operations
        ]

    def takes_dtype(self, dtype: torch.dtype) -> bool:
        """Whether tensors of this dtype can exist in a program."""
        return dtypes.ELEMENT_TYPES.get(dtype, "") in self.element_types


@cache
def rules(target: str) -> Rules:
    """The rules of a target, one of `TARGETS`."""
    data = document()
    taken = {name for source in data["operations"].values() for name in source}
    refused = [row for row in data["refused"] if target in row["targets"]]
    types = [row for row in data["element_types"] if target in row["targets"]]
    return Rules(
        frozenset(taken) - {row["operation"] for row in refused},
        frozenset(name for row in types for name in row["types"]),
        {row["operation"]: f"{row['reason']}; use {row['instead']}" for row in refused},
    )


@cache
def document() -> dict[str, Any]:
    """The data file."""
    text = (files(__package__) / "data" / "legality.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
