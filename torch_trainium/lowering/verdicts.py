"""Whether the programs of an operator are native on a target: its proofs, held to the rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import torch

from torch_trainium.lowering import dtypes, legality, proofs
from torch_trainium.lowering.proofs import DIFFERS, Proof, Proofs

UNPROVEN = "no check has run a program of it"


@dataclass(frozen=True)
class Verdict:
    """Of one functional overload, on one target.

    Attributes:
        native: dtypes of the first tensor that it is native for, whatever it is used for or but
            for some uses.
        refused: other dtypes that a check covers and that exist on the target, and why each is
            a CPU fallback.
        refused_uses: by use, native dtypes and why that use of them is a CPU fallback.
        problems: what is wrong with some programs for native dtypes.

    """

    native: frozenset[torch.dtype]
    refused: dict[torch.dtype, str]
    refused_uses: dict[str, dict[torch.dtype, str]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def is_native(self) -> bool:
        """Whether it is native for every dtype that a check covers, whatever it is used for."""
        return bool(self.native) and not (self.refused or self.refused_uses or self.problems)

    @property
    def reason(self) -> str:
        """Why it is not native, where it is not; the reasons of all dtypes."""
        return "; ".join(dict.fromkeys(self.refused.values())) or UNPROVEN


@cache
def recorded() -> Proofs:
    """The proofs in the data file."""
    return proofs.read()


@cache
def verdict(overload: str, target: str, same: tuple[str, ...] = ()) -> Verdict:
    """The verdict on a functional overload, such as "aten::add.Tensor".

    Args:
        overload: what it is on.
        target: one of `legality.TARGETS`.
        same: overloads with the same lowering, whose proofs hold for dtypes that it has none for.

    """
    return judge(recorded(), overload, legality.rules(target), same)


def judge(
    found: Proofs, overload: str, rules: legality.Rules, same: tuple[str, ...] = ()
) -> Verdict:
    """The verdict that some proofs and rules come to."""
    if parts := found.parts_of(overload):
        return _of_parts([judge(found, part, rules) for part in parts], parts)
    native: set[torch.dtype] = set()
    refused: dict[torch.dtype, str] = {}
    refused_uses: dict[str, dict[torch.dtype, str]] = defaultdict(dict)
    problems: list[str] = []
    by_dtype: dict[torch.dtype, Mapping[str, Proof]] = {}
    for name in (*same, overload):
        by_dtype.update(found.of(name))
    for dtype, by_use in by_dtype.items():
        if not rules.takes_dtype(dtype):
            continue
        reasons = {use: _reason(proof, rules) for use, proof in by_use.items()}
        if all(reasons.values()):
            refused[dtype] = "; ".join(dict.fromkeys(reasons.values()))
            continue
        native.add(dtype)
        for use, reason in reasons.items():
            if reason:
                refused_uses[use][dtype] = reason
            elif by_use[use].problem:
                problems.append(by_use[use].problem)
    return Verdict(frozenset(native), refused, dict(refused_uses), tuple(dict.fromkeys(problems)))


def _of_parts(verdicts: list[Verdict], parts: tuple[str, ...]) -> Verdict:
    """Native where all parts are: for a dtype that one does not meet, as a mask's, where it is."""
    met = frozenset[torch.dtype]().union(*(verdict.native for verdict in verdicts))
    refused: dict[torch.dtype, str] = {}
    for part, verdict in zip(parts, verdicts, strict=True):
        blocked = verdict.refused if verdict.native else dict.fromkeys(met, verdict.reason)
        for dtype, reason in blocked.items():
            refused.setdefault(dtype, f"made of {part}: {reason}")
    return Verdict(met - set(refused), refused)


def is_expressible(found: Proofs, overload: str) -> bool:
    """Whether every sample of every dtype had a program, right or wrong."""
    if parts := found.parts_of(overload):
        return all(part in found and is_expressible(found, part) for part in parts)
    by_dtype = found.of(overload)
    return bool(by_dtype) and all(
        proof.has_programs and proof.problem in ("", DIFFERS)
        for by_use in by_dtype.values()
        for proof in by_use.values()
    )


def _reason(proof: Proof, rules: legality.Rules) -> str:
    """Why a use is refused; "" where every program of it is taken."""
    if not proof.has_programs:
        return proof.problem
    return "; ".join(map(str, rules.refusals(proof.always | proof.sometimes)))


def dtype_names(chosen: frozenset[torch.dtype] | set[torch.dtype]) -> list[str]:
    """Their names, in the order of `dtypes.ELEMENT_TYPES`."""
    return [str(dtype).removeprefix("torch.") for dtype in dtypes.ELEMENT_TYPES if dtype in chosen]
