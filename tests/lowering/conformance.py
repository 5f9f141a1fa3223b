"""Command line: op_db's samples, forward and backward, every ATen operator in them compared."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a worker is one core
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # programs run on host memory here

import argparse
import fnmatch
import json
import sys
import warnings
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as invocations
from torch.testing._internal.opinfo.core import OpInfo

from tests.conformance.case import Case, Result, Skip
from tests.conformance.pool import run_cases
from torch_trainium.lowering import proofs, registry

from .compare import CompareWithCompiled

DTYPES = ("float32",)


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
    """One operator in one dtype; `result.reason` holds what became of each overload, as JSON."""
    op = operators()[case.name]
    dtype = getattr(torch, case.dtype)
    if dtype not in op.supported_dtypes("cpu"):
        raise Skip("PyTorch's CPU has no such dtype")
    grad = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    grad = grad and not op.name.startswith("_foreach")  # its gradients are those of the members
    torch.manual_seed(0)
    with CompareWithCompiled() as mode:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
            result.samples += 1
            if max_samples and result.samples > max_samples:
                break
            _run_sample(op, sample, grad)
            if op.name.startswith("_foreach") and op.inplace_variant is not None and not grad:
                _run_in_place(op, sample)
    for overload, problems in mode.failed.items():
        result.fail(f"{overload} ({len(problems)} times): {problems[0][:600]}")
    for overload, problem in mode.unsupported.items():
        result.fail(f"{overload} unsupported: {problem[:600]}")
    result.reason = json.dumps(
        {
            "passed": mode.passed,
            "failed": {k: len(v) for k, v in mode.failed.items()},
            "unsupported": mode.unsupported,
            "proofs": mode.proofs.to_json(),
        }
    )


def _run_sample(op: OpInfo, sample: Any, grad: bool) -> None:
    try:
        output = op(sample.input, *sample.args, **sample.kwargs)
        if not grad:
            return
        output = sample.output_process_fn_grad(output)
        outputs = [output] if isinstance(output, torch.Tensor) else list(output)
        outputs = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(o) for o in outputs])
    except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
        return  # the CPU itself refuses this sample


def _run_in_place(op: OpInfo, sample: Any) -> None:
    try:
        op.inplace_variant(sample.input, *sample.args, **sample.kwargs)
    except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
        return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lowering.conformance")
    parser.add_argument("patterns", nargs="*", help="names of op_db, with wildcards; all if none")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--samples", type=int, default=0, help="at most so many of each operator")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--overload", default="*", help="report only overloads like this")
    parser.add_argument("--write-table", action="store_true", help="write lowering/data")
    parser.add_argument("--json", type=Path, help="where to write the results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    registry.table()
    names = [
        name
        for name in operators()
        if not options.patterns or any(fnmatch.fnmatch(name, p) for p in options.patterns)
    ]
    cases = [Case("lowering", name, "op", dtype) for name in names for dtype in options.dtypes]
    totals: dict[str, Counter[str]] = {}
    results = []
    found_proofs = proofs.Proofs()
    runner = partial(run, options.samples)
    for result in run_cases(cases, runner, jobs=options.jobs, chunk_size=8):
        results.append(result)
        for failure in result.failures:
            if fnmatch.fnmatch(failure.partition(" ")[0], options.overload):
                print(f"{result.case.name} {result.case.dtype}: {failure}", flush=True)
        if result.reason.startswith("{"):
            found = json.loads(result.reason)
            found_proofs.merge(proofs.from_json(found["proofs"]))
            for status in ("passed", "failed", "unsupported"):
                overloads = found[status]
                for overload in overloads:
                    totals.setdefault(overload, Counter())[status] += 1
    clean = sum(set(counts) == {"passed"} for counts in totals.values())
    failing = sorted(name for name, c in totals.items() if "failed" in c)
    missing = sorted(name for name, c in totals.items() if "unsupported" in c)
    print(f"\n{clean} of {len(totals)} overloads pass wherever they occur")
    print(f"{len(failing)} with differences: {' '.join(failing)}")
    print(f"{len(missing)} unsupported somewhere: {' '.join(missing)}")
    if options.json is not None:
        options.json.write_text(json.dumps([result.to_json() for result in results]))
    if options.write_table:
        known = proofs.read()
        known.replace(found_proofs)
        proofs.write(known)
    return 1 if failing or missing else 0


if __name__ == "__main__":
    sys.exit(main())
