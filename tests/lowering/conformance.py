"""Command line: op_db's samples through compiled eager, every ATen operator in them compared."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a worker is one core
os.environ["TORCH_TRAINIUM_EAGER"] = "compiled"
os.environ["TORCH_TRAINIUM_FALLBACK"] = "error"
# A lowering that PyTorch's kernel stands in for would be compared with itself.
os.environ["TORCH_TRAINIUM_ENGINE_REWRITES"] = "0"

import argparse
import fnmatch
import json
import sys
import warnings
from collections import Counter, defaultdict
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as invocations
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_leaves, tree_map

from tests.conformance import expectations
from tests.conformance.case import FAILURES, Case, Result, Skip
from tests.conformance.mirror import Mirror
from tests.conformance.pool import run_cases
from torch_trainium.lowering import proofs, registry
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

from . import report
from .compare import CompareWithCpu

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "lowering_conformance.md"
EXPECTED = Path(__file__).with_name("expected_failures.toml")

DEVICE = "neuron"
# What both chips compute in, and what only programs can be written in.
NATIVE_DTYPES = (
    *("float32", "bfloat16", "float16"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
)
OTHER_DTYPES = ("float64", "complex64")
# Enough to say whether an operator can be written in those.
SAMPLES_IN_OTHER_DTYPES = 2
# In-place and out= forms derive from the functional one: they are tried on the first samples.
SAMPLES_OF_OTHER_FORMS = 2


@cache
def operators() -> dict[str, OpInfo]:
    lists = [
        invocations.foreach_unary_op_db,
        invocations.foreach_binary_op_db,
        invocations.foreach_pointwise_op_db,
        invocations.foreach_reduce_op_db,
        invocations.foreach_other_op_db,
    ]
    return {op.full_name: op for ops in [invocations.op_db, *lists] for op in ops}


def run(max_samples: int, case: Case, result: Result) -> None:
    """One operator in one dtype; `result.findings` says what became of each overload."""
    op = operators()[case.name]
    dtype = getattr(torch, case.dtype)
    if op.name.startswith("jiterator"):
        raise Skip("compiles a CUDA kernel")
    if dtype not in op.supported_dtypes("cpu"):
        raise Skip("PyTorch's CPU has no such dtype")
    grad = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    grad = grad and not op.name.startswith("_foreach")  # its gradients are those of the members
    torch.manual_seed(0)
    with native_means_expressible(), CompareWithCpu(DEVICE) as mode:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
            if max_samples and result.samples == max_samples:
                break
            result.samples += 1
            run_sample(op, Mirror("cpu", DEVICE)(sample), grad)
            if result.samples <= SAMPLES_OF_OTHER_FORMS:
                run_in_place(op, sample)
                run_out(op, sample)
    for overload, problems in mode.failed.items():
        result.fail(f"{overload} ({len(problems)} times): {problems[0][:600]}")
    for overload, problem in mode.unsupported.items():
        result.fail(f"{overload} unsupported: {problem[:600]}")
    result.findings = {
        "passed": dict(mode.passed),
        "as accurate": dict(mode.as_accurate),
        "failed": {k: len(v) for k, v in mode.failed.items()},
        "unsupported": mode.unsupported,
        "proofs": mode.proofs.to_json(),
    }


# What the mode has seen and noted, or the CPU refuses as well.
RAISED = (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError)


def run_sample(op: OpInfo, sample: Any, grad: bool) -> None:
    with suppress(*RAISED):
        output = op(sample.input, *sample.args, **sample.kwargs)
        if not grad:
            return
        output = sample.output_process_fn_grad(output)
        outputs = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor)]
        outputs = [t for t in outputs if t.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])


def run_in_place(op: OpInfo, sample: Any) -> None:
    if op.inplace_variant is None:
        return
    with suppress(*RAISED), torch.no_grad():
        moved = Mirror("cpu", DEVICE)(sample)
        op.inplace_variant(moved.input, *moved.args, **moved.kwargs)


def run_out(op: OpInfo, sample: Any) -> None:
    if not op.supports_out:
        return
    with suppress(*RAISED), torch.no_grad():
        moved = Mirror("cpu", DEVICE)(sample)
        results = op(moved.input, *moved.args, **moved.kwargs)
        out = tree_map(lambda t: torch.empty_like(t), results)
        op(moved.input, *moved.args, **moved.kwargs, out=out)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lowering.conformance")
    parser.add_argument("patterns", nargs="*", help="names of op_db, with wildcards; all if none")
    parser.add_argument("--dtypes", nargs="+", default=NATIVE_DTYPES)
    parser.add_argument("--samples", type=int, default=0, help="at most so many of each operator")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds a case may take")
    parser.add_argument("--overload", default="*", help="report only overloads like this")
    parser.add_argument("--write", action="store_true", help="write the document and the proofs")
    parser.add_argument("--write-table", action="store_true", help="write the proofs alone")
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument("--earlier", type=Path, nargs="*", default=(), help="results to take over")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    registry.table()
    names = [
        name
        for name in operators()
        if not options.patterns or any(fnmatch.fnmatch(name, p) for p in options.patterns)
    ]
    cases = [Case("lowering", name, "op", dtype) for name in names for dtype in options.dtypes]
    rows = expectations.load(EXPECTED)
    known = [
        expectations.judge(Result.from_json(row), rows)
        for path in options.earlier
        for row in json.loads(path.read_text())
    ]
    done = {result.case for result in known}
    results = execute([case for case in cases if case not in done], options)
    results = sorted([*results, *known], key=lambda result: result.case)
    overloads: dict[str, Counter[str]] = defaultdict(Counter)
    found = proofs.Proofs()
    for result in results:
        if not result.findings:
            continue
        found.merge(proofs.from_json(result.findings["proofs"]))
        for status in ("passed", "as accurate", "failed", "unsupported"):
            for overload, calls in result.findings[status].items():
                overloads[overload][status] += calls if isinstance(calls, int) else 1
    summarize(results, overloads)
    stale = []
    if options.write:
        stale = expectations.unused(expectations.load(EXPECTED), cases)
        command = "make conformance-lowering"
        DOCUMENT.write_text(
            report.render(results, overloads, OTHER_DTYPES, SAMPLES_IN_OTHER_DTYPES, command),
            encoding="utf-8",
        )
    if options.write or options.write_table:
        table = proofs.read()
        table.replace(found)
        proofs.write(table)
    for pattern in stale:
        print(f"expected failure matches no case: {pattern}")
    if options.json is not None:
        options.json.write_text(json.dumps([result.to_json() for result in results]))
    return 1 if stale or any(result.status in FAILURES for result in results) else 0


def execute(cases: list[Case], options: argparse.Namespace) -> list[Result]:
    """The results of all cases, those that fail printed as they come."""
    rows = expectations.load(EXPECTED)
    runner = partial(run, options.samples)
    results = []
    for result in run_cases(
        cases, runner, jobs=options.jobs, chunk_size=8, timeout_seconds=options.timeout
    ):
        results.append(expectations.judge(result, rows))
        for failure in results[-1].failures if results[-1].status in FAILURES else ():
            if fnmatch.fnmatch(failure.partition(" ")[0], options.overload):
                print(f"{result.case.name} {result.case.dtype}: {failure}", flush=True)
    return results


def summarize(results: list[Result], overloads: dict[str, Counter[str]]) -> None:
    """Print what came of the cases, and of the overloads in them."""
    failing = sorted(name for name, counts in overloads.items() if counts["failed"])
    missing = sorted(name for name, counts in overloads.items() if counts["unsupported"])
    clean = len(overloads) - len({*failing, *missing})
    counts = Counter(result.status for result in results)
    print("\n" + ", ".join(f"{n} {status}" for status, n in counts.items()))
    print(f"{clean} of {len(overloads)} overloads pass wherever they occur")
    print(f"{len(failing)} with differences: {' '.join(failing)}")
    print(f"{len(missing)} unsupported somewhere: {' '.join(missing)}")


if __name__ == "__main__":
    sys.exit(main())
