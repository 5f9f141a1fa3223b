"""The operator table: each public ATen overload, and whether it runs natively. Loads no jaxlib."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, legality, registry


@dataclass(frozen=True)
class Row:
    """One overload.

    Attributes:
        name: "aten::add.Tensor".
        kind: "view" (no program), "composite" (PyTorch replaces it by others before it reaches the
            device), "operator".
        origin: the family of its lowering, "decomposition", or "" where it cannot be expressed.
        operations: the StableHLO operations of its programs for the samples of PyTorch's operator
            database; None where no sample ran as a program.
        problem: why one did not.

    """

    name: str
    kind: str
    origin: str
    operations: frozenset[str] | None
    problem: str = ""

    @property
    def is_proven(self) -> bool:
        """Whether a sample of PyTorch's operator database ran as a program."""
        return self.operations is not None

    def refusals(self, target: str) -> list[str]:
        """Why it is a CPU fallback on a target; nothing where it is native."""
        if self.kind != "operator":
            return []
        if self.problem or not self.origin:
            return [self.problem or "no lowering"]
        if self.operations is None:
            return ["no sample of the operator database uses it, so nothing proves its lowering"]
        return legality.rules(target).refusals(self.operations)


@cache
def rows() -> tuple[Row, ...]:
    """All public overloads, by name."""
    return tuple(sorted(_rows(), key=lambda row: row.name))


def score() -> tuple[int, dict[str, int]]:
    """How many functional overloads the operator database uses, and how many are native where."""
    proofs = emitted()
    counts = {"StableHLO": sum(not isinstance(proof, str) for proof in proofs.values())}
    for target in legality.TARGETS:
        rules = legality.rules(target)
        counts[target] = sum(
            not isinstance(proof, str) and not rules.refusals(proof) for proof in proofs.values()
        )
    return len(proofs), counts


def native(target: str) -> Counter[str]:
    """How many operators are native on a target, fallbacks, views and composites."""
    counts: Counter[str] = Counter()
    for row in rows():
        if row.kind != "operator":
            counts[row.kind] += 1
        else:
            counts["fallback" if row.refusals(target) else "native"] += 1
    return counts


def _rows() -> Iterator[Row]:
    proofs = emitted()
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or name.startswith("aten::_test"):
            continue
        packet, _, overload = name.removeprefix("aten::").partition(".")
        found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if found is None:
            continue
        if found.is_view:
            yield Row(name, "view", "", None)
        elif found.has_kernel_for_dispatch_key(
            torch._C.DispatchKey.CompositeImplicitAutograd
        ) and not registry.find(found):
            yield Row(name, "composite", "", None)
        else:
            yield _operator(name, found, proofs)


def _operator(name: str, overload: torch._ops.OpOverload, proofs: Mapping[str, Any]) -> Row:
    try:
        functional = dispatch.functional_form(overload) or overload
    except LoweringError:
        return Row(name, "operator", "", None)
    proof = proofs.get(registry.qualified_name(functional))
    origin = dispatch.origin(functional)
    if isinstance(proof, str):
        return Row(name, "operator", origin, None, proof)
    return Row(name, "operator", origin, None if proof is None else frozenset(proof))


def emitted() -> dict[str, list[str] | str]:
    """What the conformance run found of each functional overload that the operator database uses.

    The StableHLO operations of its programs, or why there is none.
    """
    text = (files(__package__) / "data" / "emitted.json").read_text(encoding="utf-8")
    table: dict[str, list[str] | str] = json.loads(text)
    return table


def as_markdown() -> str:
    """docs/operators.md."""
    lines = [
        "# Operators",
        "",
        "Written by `python -m torch_trainium.lowering --write`. An operator is *native* where its",
        "lowering consists of StableHLO that the target's compiler is documented to take",
        "(`torch_trainium/lowering/data/legality.toml`), for the samples of PyTorch's operator",
        "database; everything else is a CPU fallback. Views need no program, and composites are",
        "replaced by other operators before they reach the device.",
        "",
    ]
    total, counts_of = score()
    lines += [
        f"- {counts_of['StableHLO']} of the {total} overloads that the operator database uses, "
        "forward and backward, are expressible in StableHLO",
        *(f"- {counts_of[t]} of them are native on {t}" for t in legality.TARGETS),
        "",
        "Of all public overloads, in-place and `out=` forms counted apart:",
        "",
    ]
    for target in legality.TARGETS:
        counts = native(target)
        operators = counts["native"] + counts["fallback"]
        lines.append(
            f"- **{target}**: {counts['native']} of {operators} operators are native; "
            f"{counts['view']} views and {counts['composite']} composites besides"
        )
    lines += ["", "| overload | from | trn2 | trn3 | proven by |", "|---|---|---|---|---|"]
    for row in rows():
        proof = "op_db" if row.is_proven else ""
        if row.kind != "operator":
            lines.append(f"| `{row.name}` | {row.kind} | native | native | {proof} |")
            continue
        states = [_state(row, target) for target in legality.TARGETS]
        lines.append(f"| `{row.name}` | {row.origin} | {states[0]} | {states[1]} | {proof} |")
    return "\n".join(lines) + "\n"


def _state(row: Row, target: str) -> str:
    refusals = row.refusals(target)
    return f"fallback: {'; '.join(refusals)}" if refusals else "native"
