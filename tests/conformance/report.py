"""Writes docs/conformance.md from the results: totals, what failed, and every case in tables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import torch

from .case import FAILURES, Result, Status
from .checks import CHECKS

_DTYPES = {
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float16": "f16",
    "complex64": "c64",
    "complex128": "c128",
    "complex32": "c32",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "bool",
    "float8_e4m3fn": "e4m3",
    "float8_e4m3fnuz": "e4m3z",
    "float8_e5m2": "e5m2",
    "float8_e5m2fnuz": "e5m2z",
    "-": "any",
}
_COLUMNS = (Status.PASSED, Status.EXPECTED, Status.FAILED, Status.CRASHED, Status.SKIPPED)


def render(results: Sequence[Result], device: str, *, cases: int | None = None) -> str:
    """The whole document; `cases` is how many there are, where not all were run."""
    sections = [
        _head(results, device, cases or len(results)),
        _totals(results),
        _by_dtype(results),
        listed("Expected failures", [r for r in results if r.status is Status.EXPECTED]),
        listed("Failures", [r for r in results if r.status in FAILURES]),
        _skips([result for result in results if result.status is Status.SKIPPED]),
        _operators([result for result in results if result.case.suite == "ops"]),
        _grid("Modules", [result for result in results if result.case.suite == "modules"]),
        _grid("Optimizers", [result for result in results if result.case.suite == "optimizers"]),
        _behaviour([result for result in results if result.case.suite == "behaviour"]),
    ]
    return "\n".join(section for section in sections if section)


def _head(results: Sequence[Result], device: str, cases: int) -> str:
    part = ""
    if len(results) < cases:
        part = f"\n**A part only: {len(results)} of {cases} cases were run.**\n"
    done = [result for result in results if result.status is not Status.SKIPPED]
    good = sum(result.status in (Status.PASSED, Status.EXPECTED) for result in done)
    passed = sum(result.status is Status.PASSED for result in done)
    exact = sum(result.status is Status.PASSED and result.bit_equal for result in done)
    share = 100 * passed / max(1, len(done))
    return f"""# Conformance

Written by `make conformance`; do not edit. PyTorch {torch.__version__.partition("+")[0]}'s own case
databases run on `{device}` and are compared with the CPU: values at PyTorch's tolerances; dtype,
shape, strides, aliasing, errors and warnings exactly. Every case runs in a forked worker, so a
crash is counted and costs one case.
{part}
**{passed} of {len(done)} cases pass ({share:.2f} %)**, {exact} of them with every bit equal to the
CPU's; {good - passed} fail as expected, {len(done) - good} fail,
{len(results) - len(done)} are skipped (counted apart), {_count(results, Status.CRASHED)} crashed.
"""


def _count(results: Iterable[Result], status: Status) -> int:
    return sum(result.status is status for result in results)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _counts(results: Sequence[Result]) -> list[int]:
    merged = [
        Status.FAILED if r.status in (Status.TIMED_OUT, Status.UNEXPECTED_PASS) else r.status
        for r in results
    ]
    exact = sum(result.status is Status.PASSED and result.bit_equal for result in results)
    samples = sum(result.samples for result in results)
    return [*(merged.count(column) for column in _COLUMNS), exact, samples]


def _groups(results: Iterable[Result], *keys: str) -> dict[tuple[str, ...], list[Result]]:
    groups: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in results:
        groups[tuple(getattr(result.case, key) for key in keys)].append(result)
    return groups


def _totals(results: Sequence[Result]) -> str:
    header = ["suite", "check", *map(str, _COLUMNS), "bit-equal", "samples"]
    groups = _groups(results, "suite", "check")
    rows: list[list[object]] = [[*key, *_counts(groups[key])] for key in sorted(groups)]
    rows.append(["all", "", *_counts(results)])
    return "## By check\n\n" + table(header, rows)


def _by_dtype(results: Sequence[Result]) -> str:
    groups = _groups(results, "dtype")
    header = ["dtype", *map(str, _COLUMNS), "bit-equal", "samples"]
    ordered = [key for key in _DTYPES if (key,) in groups]
    return "## By dtype\n\n" + table(header, [[k, *_counts(groups[(k,)])] for k in ordered])


def samples_by_dtype(results: Sequence[Result]) -> str:
    """How many cases of each dtype ended how, and how many samples they ran."""
    statuses = (Status.PASSED, Status.EXPECTED, Status.FAILED, Status.CRASHED, Status.SKIPPED)
    rows = [
        [dtype, *(_count(group, status) for status in statuses), sum(r.samples for r in group)]
        for (dtype,), group in _groups(results, "dtype").items()
    ]
    return "## By dtype\n\n" + table(["dtype", *map(str, statuses), "samples"], rows)


def listed(title: str, results: Sequence[Result]) -> str:
    """Cases that share a reason or a first message, together."""
    groups: dict[str, list[str]] = defaultdict(list)
    for result in results:
        reason = result.reason or next(iter(result.failures), str(result.status))
        groups[reason.splitlines()[0].replace("|", "\\|")].append(result.case.id)
    if not groups:
        return f"## {title}\n\nNone.\n"
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    rows = [[len(ids), "<br>".join(f"`{i}`" for i in ids), reason] for reason, ids in ordered]
    return f"## {title}\n\n" + table(["cases", "which", "reason"], rows)


def _first_line(reason: str) -> str:
    return reason.splitlines()[0] if reason else "no reason given"


def _skips(results: Sequence[Result]) -> str:
    reasons = Counter(re.sub(r"\d+", "N", _first_line(result.reason)) for result in results)
    rows = [[count, reason.replace("|", "\\|")] for reason, count in reasons.most_common()]
    return "## Skipped\n\n" + table(["cases", "reason"], rows)


def _mark(result: Result, text: str) -> str:
    if result.status is Status.PASSED:
        return text
    if result.status is Status.EXPECTED:
        return f"_{text}_"
    if result.status is Status.SKIPPED:
        return ""
    return f"**{text}!**"


def _operators(results: Sequence[Result]) -> str:
    if not results:
        return ""
    letters: dict[str, list[str]] = defaultdict(list)
    for check in CHECKS.values():
        letters[check.letter].append(check.name)
    legend = ", ".join(f"{letter} {'/'.join(names)}" for letter, names in letters.items())
    dtypes = [dtype for dtype in _DTYPES if any(r.case.dtype == dtype for r in results)]
    rows = (
        [f"`{name}`", *(_cell(group, dtype) for dtype in dtypes)]
        for (name,), group in _groups(results, "name").items()
    )
    return (
        "## Operators\n\n"
        f"A letter is a check that passes in that dtype: {legend}.\n"
        "In italics: fails as expected. Bold with `!`: fails. Skipped checks are left out.\n\n"
        + table(["operator", *(_DTYPES[dtype] for dtype in dtypes)], rows)
    )


def _cell(results: Sequence[Result], dtype: str) -> str:
    """The letters of a dtype, in the order of the checks; layouts share one letter."""
    worst: dict[str, Result] = {}
    for result in sorted(results, key=lambda r: list(CHECKS).index(r.case.check)):
        if result.case.dtype != dtype:
            continue
        letter = CHECKS[result.case.check].letter
        known = worst.get(letter)
        if known is None or _rank(result) > _rank(known):
            worst[letter] = result
    return "".join(_mark(result, letter) for letter, result in worst.items())


def _rank(result: Result) -> int:
    order = (Status.SKIPPED, Status.PASSED, Status.EXPECTED)
    return order.index(result.status) if result.status in order else len(order)


def _grid(title: str, results: Sequence[Result]) -> str:
    """One row for each name, one column for each check, dtypes in the cells."""
    if not results:
        return ""
    checks = list(dict.fromkeys(result.case.check for result in results))
    rows = []
    for (name,), group in _groups(results, "name").items():
        cells = _groups(group, "check")
        rows.append([f"`{name}`", *(_dtype_list(cells.get((check,), [])) for check in checks)])
    return f"## {title}\n\n" + table(["name", *checks], rows)


def _dtype_list(results: Sequence[Result]) -> str:
    return " ".join(filter(None, (_mark(r, _DTYPES[r.case.dtype]) for r in results)))


def _behaviour(results: Sequence[Result]) -> str:
    if not results:
        return ""
    return "## Behaviour\n\n" + table(["feature", "cases"], _behaviour_rows(results))


def _behaviour_rows(results: Sequence[Result]) -> Iterator[Sequence[str]]:
    for (feature,), group in _groups(results, "check").items():
        names = (_mark(result, result.case.name.replace("_", " ")) for result in group)
        yield feature, "; ".join(filter(None, names))
