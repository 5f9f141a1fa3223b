"""Write docs/accuracy.md: predicted against published times, by family, with the exceptions.

`python -m accuracy.report [--measured rows.csv] [--output docs/accuracy.md]`
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from accuracy.prediction import Excluded
from accuracy.predictions import Scored, evaluate, map_rows
from accuracy.reservations import reservation
from accuracy.rows import MEASURED, read_rows

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "docs" / "accuracy.md"
HELD_OUT = Path(__file__).parent / "held_out.json"
WORST = 20
NAMED_ROWS = 6

KINDS = {
    "infer": "inference",
    "kernel": "kernels",
    "micro": "instructions",
    "collective": "collectives",
    "train": "training",
    "overhead": "copies",
    "memory": "memory",
}


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _errors(scored: Iterable[Scored]) -> list[float]:
    return [abs(one.error) for one in scored]


def _held_out_errors(scored: Iterable[Scored], held_out: Mapping[str, float]) -> list[float]:
    return [
        abs(held_out[one.row.id] / one.row.value - 1) for one in scored if one.row.id in held_out
    ]


def _summary(errors: Sequence[float]) -> tuple[str, str]:
    if not errors:
        return ("-", "-")
    return _percent(float(np.median(errors))), _percent(float(np.percentile(errors, 90)))


def _families(
    scored: Sequence[Scored], held_out: Mapping[str, float], key: Callable[[Scored], str]
) -> list[str]:
    groups: dict[tuple[str, str], list[Scored]] = defaultdict(list)
    for one in scored:
        groups[key(one), one.row.chip].append(one)
    rows = []
    for (name, chip), members in sorted(groups.items()):
        sources = len({one.row.group for one in members})
        rows.append(
            (
                name,
                chip,
                str(len(members)),
                str(sources),
                *_summary(_errors(members)),
                *_summary(_held_out_errors(members, held_out)),
            )
        )
    head = ("family", "chip", "rows", "sources", "median", "90th", "held-out median", "90th")
    return _table(head, rows)


def _row_lines(scored: Iterable[Scored]) -> list[str]:
    rows = (
        (
            one.row.id,
            one.row.workload.replace("|", "/"),
            one.row.chip,
            one.row.metric,
            f"{one.row.value:.5g} {one.row.unit}",
            f"{one.predicted:.5g}",
            f"{100 * one.error:+.0f} %",
        )
        for one in scored
    )
    head = ("row", "workload", "chip", "metric", "measured", "predicted", "error")
    return _table(head, rows)


def _reserved(scored: Sequence[Scored], reserved: Mapping[str, str | None]) -> list[str]:
    lines = []
    for reason in dict.fromkeys(reserved.values()):
        if reason is not None:
            members = [one for one in scored if reserved[one.row.id] == reason]
            median, tail = _summary(_errors(members))
            lines += [f"{reason[0].upper()}{reason[1:]}: median {median}, 90th {tail}.", ""]
            lines += _row_lines(members)
    return lines


def _excluded(excluded: Iterable[Excluded]) -> list[str]:
    reasons: dict[str, list[Excluded]] = defaultdict(list)
    for one in excluded:
        reasons[one.reason].append(one)
    rows = []
    for reason, members in sorted(reasons.items(), key=lambda item: -len(item[1])):
        named = ", ".join(one.row.id for one in members[:NAMED_ROWS])
        more = ", ..." if len(members) > NAMED_ROWS else ""
        rows.append((reason, str(len(members)), named + more))
    return _table(("rule", "rows", "which"), rows)


def document(
    scored: Sequence[Scored], excluded: Sequence[Excluded], held_out: Mapping[str, float]
) -> str:
    """The text of docs/accuracy.md."""
    reserved = {one.row.id: reservation(one.prediction) for one in scored}
    claimed = [one for one in scored if reserved[one.row.id] is None]
    worst = sorted(claimed, key=lambda one: -abs(one.error))[:WORST]
    total = len(scored) + len(excluded)
    lines = [
        "# How accurate predicted times are",
        "",
        "Written by `make accuracy`. Each published measurement in",
        "`torch_trainium/hardware/data/measured.csv` names a program; `accuracy/models` has it,",
        "its operators are recorded on meta tensors, and the cost model predicts its time. No",
        "row is looked up: rules in `accuracy/kinds` read model names, shapes and units.",
        "An error is |predicted / measured - 1|. *Held-out* errors are those of constants fitted",
        "without any row of the same document (a file or page; one author may have several). The",
        "overheads of software profiles are not held out: some are read off rows that are scored",
        "here, as `profiles.toml` says, and so is the host time of a server's request.",
        "",
        f"Of {total} rows {len(scored)} are predicted and {len(excluded)} are not, by the rules at",
        "the end. Where rows are versions of one configuration, the fastest is scored. A run that",
        "its source gives both as a rate and as a latency counts as two rows.",
        "",
        "## By kind and chip",
        "",
        *_families(claimed, held_out, lambda one: KINDS.get(one.row.kind, one.row.kind)),
        "## By family",
        "",
        *_families(claimed, held_out, lambda one: one.prediction.family),
        "## Reported, not claimed",
        "",
        "No measurement of multi-node training, of any training on Trainium3, or of training in",
        "native eager mode is public: eager models are forward passes, and what was trained ran in",
        "the lazy mode of torch-xla.",
        "",
        *_reserved(scored, reserved),
        "## The worst rows",
        "",
        *_row_lines(worst),
        "## What is not covered, and why",
        "",
        *_excluded(excluded),
    ]
    return "\n".join(lines)


def main() -> None:
    """Recompute every prediction and write the document."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--measured", type=Path, default=MEASURED)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    predictions, excluded = map_rows(read_rows(arguments.measured))
    scored = evaluate(predictions)
    held_out = json.loads(HELD_OUT.read_text("utf-8")) if HELD_OUT.exists() else {}
    arguments.output.write_text(document(scored, excluded, held_out), encoding="utf-8")
    claimed = [one for one in scored if reservation(one.prediction) is None]
    for kind, chip in sorted({(one.row.kind, one.row.chip) for one in claimed}):
        members = [one for one in claimed if (one.row.kind, one.row.chip) == (kind, chip)]
        median, tail = _summary(_errors(members))
        print(f"{kind:12}{chip:6}{len(members):4} rows  median {median:>8}  90th {tail:>8}")


if __name__ == "__main__":
    main()
