"""Command line: which operators op_db's samples use that conformance does not see.

They count among those that have to have programs. Conformance sweeps the chips' dtypes, and under
a dispatch mode, where some gradients are computed by other operators. Here the samples run as a
user runs them, in float32 and in dtypes that no chip has, on the host engine, which is quick; what
the device executed is noted and nothing is compared.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import warnings

import torch

from tests.conformance.case import Case, Result, Skip
from tests.conformance.mirror import Mirror
from tests.conformance.pool import run_cases
from torch_trainium.eager import eager_mode_is
from torch_trainium.lowering import proofs, table
from torch_trainium.neuron import executed_ops, reset_executed_ops
from torch_trainium.neuron.cpu_fallbacks import fallback_is

from .conformance import (
    DEVICE,
    OTHER_DTYPES,
    SAMPLES_OF_OTHER_FORMS,
    operators,
    run_in_place,
    run_out,
    run_sample,
)

DTYPES = ("float32", *OTHER_DTYPES)


def run(case: Case, result: Result) -> None:
    """One operator in one dtype; `result.findings` says which overloads the device executed."""
    op, dtype = operators()[case.name], getattr(torch, case.dtype)
    if dtype not in op.supported_dtypes("cpu"):
        raise Skip("PyTorch's CPU has no such dtype")
    grad = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    torch.manual_seed(0)
    reset_executed_ops()
    with eager_mode_is("host"), fallback_is("allow"):
        for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
            result.samples += 1
            run_sample(op, Mirror("cpu", DEVICE)(sample), grad)
            if result.samples <= SAMPLES_OF_OTHER_FORMS:
                run_in_place(op, sample)
                run_out(op, sample)
    result.findings = {"executed": sorted(executed_ops())}


def cases(patterns: list[str]) -> list[Case]:
    """Each operator in each dtype."""
    return [
        Case("touched", name, "op", dtype)
        for name, op in operators().items()
        if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
        for dtype in DTYPES
        if not op.name.startswith("jiterator")
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lowering.touched")
    parser.add_argument("patterns", nargs="*", help="names of op_db, with wildcards; all if none")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write-table", action="store_true", help="add to lowering/data")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    functional = {row.name: row.functional for row in table.rows() if row.kind == "operator"}
    known = proofs.read()
    new: set[str] = set()
    for result in run_cases(
        cases(options.patterns), run, jobs=options.jobs, chunk_size=32, timeout_seconds=600.0
    ):
        for failure in result.failures:
            print(f"{result.case.name} {result.case.dtype}: {failure}", flush=True)
        for name in result.findings.get("executed", ()):
            overload = functional.get(name, "")
            if overload and known.check_of(overload) != proofs.OPERATOR_DATABASE:
                new.add(overload)
    print(f"{len(new)} overloads that no sweep has seen: {' '.join(sorted(new))}")
    if options.write_table:
        for overload in new:
            known.record_use(overload)
        proofs.write(known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
