"""Whether the programs of an operator are native on a target: its proofs, held to the rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from torch_trainium.lowering import dtypes, legality, proofs
from torch_trainium.lowering.proofs import DIFFERS, Proof, Proofs

UNPROVEN = "no check has run a program of it"


@dataclass(frozen=True)
class Verdict:
    """Of one functional overload, on one target.

    Attributes:
        native: dtypes of the first tensor that it is native for.
        refused: other dtypes that a check covers and that exist on the target, and why each is
            a CPU fallback.
        limits: uses of it that are not native although others are.

    """

    native: frozenset[torch.dtype]
    refused: dict[torch.dtype, str]
    limits: tuple[str, ...]

    @property
    def is_native(self) -> bool:
        """Whether it is native for every dtype that a check covers, whatever it is used for."""
        return bool(self.native) and not self.refused and not self.limits

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
    limits: list[str] = []
    by_dtype: dict[torch.dtype, Proof] = {}
    for name in (*same, overload):
        by_dtype.update(found.of(name))
    for dtype, proof in by_dtype.items():
        if not rules.takes_dtype(dtype):
            continue
        reasons = _reasons(proof, rules)
        if reasons:
            refused[dtype] = "; ".join(reasons)
        else:
            native.add(dtype)
            limits += _limits(proof, rules)
    return Verdict(frozenset(native), refused, tuple(dict.fromkeys(limits)))


def _of_parts(verdicts: list[Verdict], parts: tuple[str, ...]) -> Verdict:
    """Native where all parts are: for a dtype that one does not meet, as a mask's, where it is."""
    met = frozenset[torch.dtype]().union(*(verdict.native for verdict in verdicts))
    refused: dict[torch.dtype, str] = {}
    for part, verdict in zip(parts, verdicts, strict=True):
        blocked = verdict.refused if verdict.native else dict.fromkeys(met, verdict.reason)
        for dtype, reason in blocked.items():
            refused.setdefault(dtype, f"made of {part}: {reason}")
    return Verdict(met - set(refused), refused, ())


def is_expressible(found: Proofs, overload: str) -> bool:
    """Whether every sample of every dtype had a program, right or wrong."""
    if parts := found.parts_of(overload):
        return all(part in found and is_expressible(found, part) for part in parts)
    return all(p.has_programs and p.problem in ("", DIFFERS) for p in found.of(overload).values())


def _reasons(proof: Proof, rules: legality.Rules) -> list[str]:
    """Why every use is refused; nothing where some are taken."""
    if not proof.has_programs:
        return [proof.problem]
    every = rules.refusals(proof.always)
    some = [r for r in rules.refusals(proof.sometimes) if not r.is_use]
    return list(dict.fromkeys(str(refusal) for refusal in [*every, *some]))


def _limits(proof: Proof, rules: legality.Rules) -> list[str]:
    uses = [str(refusal) for refusal in rules.refusals(proof.sometimes)]
    return [*uses, *([proof.problem] if proof.problem else [])]


def dtype_names(chosen: frozenset[torch.dtype] | set[torch.dtype]) -> list[str]:
    """Their names, in the order of `dtypes.ELEMENT_TYPES`."""
    return [str(dtype).removeprefix("torch.") for dtype in dtypes.ELEMENT_TYPES if dtype in chosen]
