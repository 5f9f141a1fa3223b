"""What the chips' compiler takes of a program: `data/legality.toml`, applied. Loads no jaxlib."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import torch

from torch_trainium.lowering import dtypes

TARGETS = ("trn2", "trn3")


@dataclass(frozen=True)
class Refusal:
    """Why the compiler of a target does not take something.

    Attributes:
        reason: what is wrong, as part of a sentence.
        code: the compiler's error code, or "" where no documentation mentions the thing.
        instead: what it would take in place of it, or "" where there is nothing.
        source: what documents that, by its key in the data file.
        is_use: whether it is a limit on how an operation is used.

    """

    reason: str
    code: str = ""
    instead: str = ""
    source: str = ""
    is_use: bool = False

    def __str__(self) -> str:
        prefix = f"{self.code}: " if self.code else ""
        return prefix + self.reason + (f"; use {self.instead}" if self.instead else "")


@dataclass(frozen=True)
class Rules:
    """What one target takes.

    Attributes:
        operations: patterns of the operations known to compile, in the words of `emitted`.
        element_types: element types that exist there.
        refused: why other operations and types are refused, by pattern, and uses of these.

    """

    operations: tuple[str, ...]
    element_types: frozenset[str]
    refused: tuple[tuple[str, Refusal], ...]

    def refusal(self, token: str) -> Refusal | None:
        """Why the target does not take what a token stands for; None where it does."""
        if token.startswith("@"):
            is_listed = token.removeprefix("@") in self.element_types
        else:
            is_listed = any(fnmatchcase(token, pattern) for pattern in self.operations)
        for pattern, refusal in self.refused:
            if (refusal.is_use or not is_listed) and fnmatchcase(token, pattern):
                return refusal
        return None if is_listed else Refusal(f"{token} is not known to compile")

    def refusals(self, tokens: Iterable[str]) -> list[Refusal]:
        """Why the target does not take a program, each reason once."""
        found = [self.refusal(token) for token in sorted(tokens)]
        return list(dict.fromkeys(refusal for refusal in found if refusal is not None))

    def dtype_refusal(self, dtype: torch.dtype) -> Refusal | None:
        """Why tensors of a dtype cannot exist in the target's programs; None where they can."""
        name = dtypes.ELEMENT_TYPES.get(dtype)
        if name is None:
            return Refusal(f"programs have no {str(dtype).removeprefix('torch.')}")
        return self.refusal(f"@{name}")

    def takes_dtype(self, dtype: torch.dtype) -> bool:
        """Whether tensors of this dtype can exist in a program."""
        return self.dtype_refusal(dtype) is None


@cache
def rules(target: str) -> Rules:
    """The rules of a target, one of `TARGETS`."""
    data = document()
    types = [row for row in data["element_types"] if target in row["targets"]]
    refused = [
        (
            pattern,
            Refusal(
                row["reason"],
                row["code"],
                row.get("instead", ""),
                row["source"],
                row.get("a_use", False),
            ),
        )
        for row in data["refused"]
        if target in row["targets"]
        for pattern in row["tokens"]
    ]
    return Rules(
        tuple(pattern for source in data["operations"].values() for pattern in source),
        frozenset(name for row in types for name in row["types"]),
        tuple(refused),
    )


@cache
def document() -> dict[str, Any]:
    """The data file."""
    text = (files(__package__) / "data" / "legality.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
