"""What `python -m torch_trainium.lowering --write` writes: the document, and the data for C++."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import torch

from torch_trainium.lowering import dtypes, legality, table, verdicts
from torch_trainium.lowering.table import Row

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "operators.md"
CLASSIFICATION = Path(str(files(__package__) / "data" / "classification.tsv"))

_INTRODUCTION = """\
# Operators

Written by `python -m torch_trainium.lowering --write`. An operator is *native* on a chip where its
lowering consists of StableHLO that the chip's compiler is documented to take
(`torch_trainium/lowering/data/legality.toml`), in every program that a check has run and compared
with PyTorch's CPU kernel (`data/emitted.json`). Everything else is a CPU fallback
([fallbacks.md](fallbacks.md)). Views and storage need no program, and composites are replaced by
other operators before they reach the device.

Dtypes are those of the first tensor. An operator is a fallback for dtypes that no check covers, and
whatever it is where a tensor has a dtype that does not exist on the chip:
"""


def files_to_write() -> dict[Path, str]:
    """Every generated file and what it has to hold."""
    return {DOCUMENT: "\n".join(_document()) + "\n", CLASSIFICATION: "\n".join(_rows()) + "\n"}


def outdated() -> list[Path]:
    """The generated files that do not hold what they have to."""
    return [
        path
        for path, text in files_to_write().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def _document() -> Iterator[str]:
    yield _INTRODUCTION
    yield "| dtype | " + " | ".join(legality.TARGETS) + " |"
    yield "|---|" + "---|" * len(legality.TARGETS)
    for dtype in dtypes.ELEMENT_TYPES:
        refusals = [legality.rules(target).dtype_refusal(dtype) for target in legality.TARGETS]
        if any(refusals):
            cells = " | ".join(str(refusal or "exists") for refusal in refusals)
            yield f"| {str(dtype).removeprefix('torch.')} | {cells} |"
    score = table.score()
    yield ""
    yield (
        f"Of the {score.total} overloads that the samples of PyTorch's operator database use, "
        "forward and backward, in every dtype that they come in, in-place and `out=` forms counted "
        "with their functional form:"
    )
    yield ""
    yield f"- {_share(score.expressible, score.total)} are expressible in StableHLO, every sample"
    for target in legality.TARGETS:
        yield (
            f"- {_share(score.native[target], score.total)} are native on {target} for every dtype "
            f"that a check covers and exists there, and {score.partly_native[target]} more for "
            "some dtypes or uses"
        )
    yield ""
    yield "Of all public overloads, in-place and `out=` forms counted apart:"
    yield ""
    for target in legality.TARGETS:
        counted = table.counts(target)
        kinds = ("native", "partly native", "fallback", "view", "storage", "composite")
        yield f"- **{target}**: " + ", ".join(f"{counted[kind]} {kind}" for kind in kinds)
    yield ""
    yield "| overload | from | trn2 | trn3 | proven by |"
    yield "|---|---|---|---|---|"
    for row in table.rows():
        states = [row.state(target).replace("|", "\\|") for target in legality.TARGETS]
        if states[1] == states[0]:
            states[1] = "same"
        proof = row.check
        if row.proven_as not in ("", row.functional):
            proof += f" (as `{row.proven_as}`)"
        yield f"| `{row.name}` | {row.origin or row.kind} | {' | '.join(states)} | {proof} |"


def _share(part: int, total: int) -> str:
    # Rounded down: 99.96 % is not all.
    per_mille = 1000 * part // total if total else 0
    return f"{part} ({per_mille / 10:.1f} %)"


def _rows() -> Iterator[str]:
    """The lines of the classification, which csrc/aten/classification.cpp reads.

    Each but the first holds, between tabs, an overload; the dtypes it is native for on each
    target, "*" for all; and why it is not for others. Overloads that are not listed are fallbacks.
    Where an argument decides, a line like "aten::put accumulate=True" follows for each use that is
    a fallback for dtypes of the overload's line. A first field "@float64" stands for the dtype
    itself.
    """
    yield "\t".join(["overload", *legality.TARGETS, "reason"])
    for dtype in dtypes.ELEMENT_TYPES:
        refusals = [legality.rules(target).dtype_refusal(dtype) for target in legality.TARGETS]
        exists = ["" if refusal else "*" for refusal in refusals]
        reason = next((str(refusal) for refusal in refusals if refusal), "")
        yield "\t".join([f"@{str(dtype).removeprefix('torch.')}", *exists, reason])
    for row in table.rows():
        if row.kind != "operator":
            yield "\t".join([row.name, *("*" for _ in legality.TARGETS), ""])
        elif row.proven_as:
            yield from _operator(row)


def _operator(row: Row) -> Iterator[str]:
    of_target = [row.verdict(target) for target in legality.TARGETS]
    yield _line(row.name, [(verdict.native, verdict.refused) for verdict in of_target])
    for use in sorted({use for verdict in of_target for use in verdict.refused_uses}):
        refused = [verdict.refused_uses.get(use, {}) for verdict in of_target]
        native = [
            verdict.native.difference(of_use)
            for verdict, of_use in zip(of_target, refused, strict=True)
        ]
        yield _line(f"{row.name} {use}", list(zip(native, refused, strict=True)))


def _line(name: str, of_target: list[tuple[frozenset[torch.dtype], dict[torch.dtype, str]]]) -> str:
    native = [" ".join(verdicts.dtype_names(chosen)) for chosen, _ in of_target]
    reasons = dict.fromkeys(reason for _, refused in of_target for reason in refused.values())
    return "\t".join([name, *native, "; ".join(reasons).replace("\t", " ")])
