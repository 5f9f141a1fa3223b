"""The operator table: each public ATen overload, and whether it runs natively. Loads no jaxlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, legality, proofs, registry, verdicts
from torch_trainium.lowering.verdicts import UNPROVEN, Verdict

# Allocation, storage, transfers and reads by the host: nothing is computed, in compiled mode either
# (csrc/aten/compiled_eager.cpp); casts on the way are the DMA engines'.
STORAGE = frozenset(
    f"aten::{name}"
    for name in (
        *("copy_", "_copy_from", "_copy_from_and_resize", "_to_copy"),
        *("empty", "empty_like", "empty_permuted", "empty_strided", "_efficientzerotensor"),
        *("new_empty", "new_empty_strided", "resize_", "resize", "resize_as_", "resize_as", "set_"),
        *(
            "_linalg_check_errors",
            "record_stream",
            "is_pinned",
            "_pin_memory",
            "pin_memory",
            "_local_scalar_dense",
        ),
        *("_has_compatible_shallow_copy_type", "_has_same_storage_numel", "is_same_size"),
        *("set_data", "_fused_sdp_choice"),
        *("sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "sym_is_contiguous"),
        *("is_set_to", "lift", "lift_fresh", "_version", "is_coalesced", "data"),
    )
)
NO_LOWERING = "no lowering"


@dataclass(frozen=True)
class Row:
    """One overload.

    Attributes:
        name: "aten::add.Tensor".
        kind: "view" and "storage" (no program), "composite" (PyTorch replaces it by others before
            it reaches the device), "operator".
        functional: the overload that computes the same and writes nothing, or "" where there is
            none.
        origin: the family of its lowering, "decomposition", or "" where it cannot be expressed.
        proven_as: the overload that its proofs are recorded for, which has the same lowering, or
            "" where nothing proves it.
        same: other overloads with that lowering and proofs, for dtypes that it has none for.

    """

    name: str
    kind: str
    functional: str = ""
    origin: str = ""
    proven_as: str = ""
    same: tuple[str, ...] = ()

    @property
    def check(self) -> str:
        """Which check proves it."""
        return verdicts.recorded().check_of(self.proven_as)

    def verdict(self, target: str) -> Verdict:
        """For which dtypes it is native on a target, and why not for others."""
        return verdicts.verdict(self.proven_as, target, self.same)

    def is_fallback(self, target: str) -> bool:
        """Whether it is a CPU fallback whatever the dtype."""
        return self.kind == "operator" and not self.verdict(target).native

    def state(self, target: str) -> str:
        """The same in words, with the reasons."""
        if self.kind != "operator":
            return "native"
        if not self.proven_as:
            return f"fallback: {UNPROVEN if self.origin else NO_LOWERING}"
        verdict = self.verdict(target)
        if not verdict.native:
            return f"fallback: {verdict.reason}"
        exceptions = []
        for reason in dict.fromkeys(verdict.refused.values()):
            refused = {dtype for dtype, why in verdict.refused.items() if why == reason}
            exceptions.append(f"{', '.join(verdicts.dtype_names(refused))} ({reason})")
        for use, reasons in verdict.refused_uses.items():
            names = ", ".join(verdicts.dtype_names(set(reasons)))
            exceptions.append(f"{use} of {names} ({'; '.join(dict.fromkeys(reasons.values()))})")
        if verdict.problems:
            exceptions.append(f"some uses ({'; '.join(verdict.problems)})")
        return f"native but for {', '.join(exceptions)}" if exceptions else "native"


@dataclass(frozen=True)
class Score:
    """How many of the overloads that the operator database uses are what.

    Attributes:
        total: functional overloads that it uses, forward and backward.
        expressible: those of which every sample had a program, in every dtype swept.
        native: by target, those native for every dtype swept that exists there.
        partly_native: by target, those that are not, and native for some dtypes or uses.

    """

    total: int
    expressible: int
    native: dict[str, int]
    partly_native: dict[str, int]


@cache
def rows() -> tuple[Row, ...]:
    """All public overloads, by name."""
    return tuple(sorted(_rows(), key=lambda row: row.name))


def score() -> Score:
    """The score of the recorded proofs."""
    found = verdicts.recorded()
    used = [name for name in found if found.check_of(name) == proofs.OPERATOR_DATABASE]
    native, partly = {}, {}
    for target in legality.TARGETS:
        of_target = [verdicts.verdict(name, target) for name in used]
        native[target] = sum(verdict.is_native for verdict in of_target)
        partly[target] = sum(bool(v.native) and not v.is_native for v in of_target)
    expressible = sum(verdicts.is_expressible(found, name) for name in used)
    return Score(len(used), expressible, native, partly)


def counts(target: str) -> Counter[str]:
    """How many overloads are native on a target, fallbacks, views, storage and composites."""
    found: Counter[str] = Counter()
    for row in rows():
        if row.kind != "operator":
            found[row.kind] += 1
        elif row.is_fallback(target):
            found["fallback"] += 1
        else:
            found["native" if row.verdict(target).is_native else "partly native"] += 1
    return found


def _rows() -> Iterator[Row]:
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or name.startswith("aten::_test"):
            continue
        packet, _, overload = name.removeprefix("aten::").partition(".")
        found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if found is not None:
            yield _row(name, found)


def _row(name: str, overload: torch._ops.OpOverload) -> Row:
    if overload._schema.name in STORAGE:
        return Row(name, "storage")
    if overload.is_view or torch.Tag.inplace_view in overload.tags:
        return Row(name, "view")
    if dispatch.is_composite(overload):
        return Row(name, "composite")
    functional = None
    with suppress(LoweringError):
        functional = dispatch.functional_form(overload) or overload
    if functional is None:
        return Row(name, "operator")
    functional_name = registry.qualified_name(functional)
    proven = _proven_overloads(functional, functional_name)
    return Row(
        name,
        "operator",
        functional_name,
        dispatch.origin(functional),
        proven[0] if proven else "",
        proven[1:],
    )


def _proven_overloads(functional: torch._ops.OpOverload, name: str) -> tuple[str, ...]:
    """Itself, if it has proofs, and overloads that have some and the same lowering."""
    found = verdicts.recorded()
    lowering = registry.find(functional)
    same = _lowerings_by_function().get(id(lowering.function), ()) if lowering else ()
    return tuple(other for other in dict.fromkeys((name, *same)) if other in found)


@cache
def _lowerings_by_function() -> dict[int, tuple[str, ...]]:
    names: dict[int, tuple[str, ...]] = {}
    for name, lowering in sorted(registry.table().items()):
        names[id(lowering.function)] = (*names.get(id(lowering.function), ()), name)
    return names
