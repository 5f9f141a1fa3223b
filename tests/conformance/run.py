"""Command line: runs the conformance suites and writes the results and docs/conformance.md."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a worker is one core

import argparse
import json
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import torch

from . import expectations, report, suites
from .case import FAILURES, Case, Result, Status
from .pool import run_cases, summary_of

ROOT = Path(__file__).resolve().parents[2]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="suite/check/name/dtype, with wildcards")
    parser.add_argument("--all", action="store_true", help="every case; writes the document")
    parser.add_argument("--sample", action="store_true", help="the part that make test runs")
    parser.add_argument("--cases-from", type=Path, help="a file of case ids, one a line")
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds a case may take")
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument("--report", type=Path, help="where to write the document")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    return parser.parse_args(arguments)


def select(options: argparse.Namespace) -> list[Case]:
    if options.sample:
        return list(suites.sample(options.device))
    cases = list(suites.cases(options.device))
    if options.cases_from is not None:
        wanted = set(options.cases_from.read_text().split())
        return [case for case in cases if case.id in wanted]
    if options.all:
        return cases
    return [case for case in cases if any(case.matches(p) for p in options.patterns)]


def execute(cases: list[Case], options: argparse.Namespace) -> list[Result]:
    rows = expectations.load()
    runner = partial(suites.run, options.device)
    results: list[Result] = []
    start = time.monotonic()
    for result in run_cases(cases, runner, jobs=options.jobs, timeout_seconds=options.timeout):
        results.append(expectations.judge(result, rows))
        if results[-1].status in FAILURES:
            print(f"\r{results[-1].status}: {results[-1].case.id}", flush=True)
            for failure in results[-1].failures:
                print("    " + failure.replace("\n", "\n    "))
        progress(len(results), len(cases), time.monotonic() - start)
    return sorted(results, key=lambda result: result.case)


def progress(done: int, total: int, seconds: float) -> None:
    if sys.stderr.isatty() or done % 1000 == 0:
        end = "" if sys.stderr.isatty() else "\n"
        print(f"\r{done}/{total} cases, {seconds:.0f} s", end=end, file=sys.stderr, flush=True)


def summarize(results: Iterable[Result]) -> str:
    counts = summary_of(results)
    failed = sum(counts[status] for status in FAILURES)
    passed = counts[Status.PASSED] + counts[Status.EXPECTED]
    return (
        f"{counts[Status.EXPECTED]} of the passed failed as expected, "
        f"{counts[Status.SKIPPED]} skipped, {counts[Status.CRASHED]} crashed\n"
        f"{passed} passed, {failed} failed"
    )


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    torch.set_num_threads(1)
    torch.set_warn_always(True)  # a warning given once would be seen on one of the two devices
    suites.prepare(options.device)
    cases = select(options)
    if options.list:
        print("\n".join(case.id for case in cases))
        return 0
    if not cases:
        print("no case matches", file=sys.stderr)
        return 2
    results = execute(cases, options)
    stale = expectations.unused(expectations.load(), cases) if options.all else []
    for pattern in stale:
        print(f"expected failure matches no case: {pattern}")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([result.to_json() for result in results]))
    document = options.report or (ROOT / "docs" / "conformance.md" if options.all else None)
    if document is not None:
        cases_in_all = sum(1 for _ in suites.cases(options.device))
        document.write_text(report.render(results, options.device, cases=cases_in_all))
    print()
    print(summarize(results))
    return 1 if stale or any(result.status in FAILURES for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
