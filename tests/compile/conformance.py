"""Command line: op_db's samples under torch.compile(fullgraph=True), compared with eager mode."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a worker is one core

import argparse
import fnmatch
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import same
from torch.testing._internal import common_methods_invocations as invocations
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map_only

import torch_trainium  # noqa: F401
from tests.compile import conformance_report
from tests.conformance import expectations
from tests.conformance.case import FAILURES, Case, Result, Skip
from tests.conformance.mirror import Mirror
from tests.conformance.pool import run_cases

DEVICE = "neuron"
DTYPES = ("float32", "int64")
# Each sample is a graph of its own.
SAMPLES = 2
EXPECTED = Path(__file__).with_name("expected_failures.toml")
DOCUMENT = Path(__file__).parents[2] / "docs" / "compile_conformance.md"


@cache
def operators() -> dict[str, OpInfo]:
    return {op.full_name: op for op in invocations.op_db}


def run(max_samples: int, case: Case, result: Result) -> None:
    """One operator in one dtype: its first samples."""
    op = operators()[case.name]
    dtype = getattr(torch, case.dtype)
    if op.name.startswith("jiterator"):
        raise Skip("compiles a CUDA kernel")
    if dtype not in op.supported_dtypes("cpu"):
        raise Skip("PyTorch's CPU has no such dtype")
    grad = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    torch.manual_seed(0)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
        if max_samples and result.samples == max_samples:
            break
        result.samples += 1
        torch._dynamo.reset()
        torch.neuron.reset_fallbacks()  # type: ignore[attr-defined]
        try:
            expected = outcome(op, Mirror("cpu", DEVICE)(sample), grad, is_compiled=False)
        except Exception:  # noqa: BLE001 - eager mode does not take the sample either
            continue
        in_eager = torch.neuron.fallbacks()  # type: ignore[attr-defined]
        torch.neuron.reset_fallbacks()  # type: ignore[attr-defined]
        try:
            actual = outcome(op, Mirror("cpu", DEVICE)(sample), grad, is_compiled=True)
            expect_agreement(actual, expected, lambda: outcome(op, doubled(sample), grad))  # noqa: B023
            if not in_eager:
                expect_no_fallback(torch.neuron.fallbacks())  # type: ignore[attr-defined]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the case reports
            text = str(error).strip().splitlines() or [""]
            result.fail(f"{type(error).__name__}: {' '.join(text[:3])[:400]}")


def expect_no_fallback(found: dict[str, Any]) -> None:
    """What eager mode has native is native in a graph."""
    for name, total in found.items():
        raise AssertionError(f"{name} is a CPU fallback in the graph alone: {total.reason}")


def expect_agreement(actual: Any, expected: Any, reference: Callable[[], Any]) -> None:
    """Results are close, or as near to the CPU's in float64 as those of eager mode are.

    The second is PyTorch's own comparison of compilers (`torch._dynamo.utils.same`).
    """
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
    except AssertionError:
        exact = tree_map_only(torch.Tensor, _in_parts, reference())
        given, wanted = (tree_map_only(torch.Tensor, _in_parts, t) for t in (actual, expected))
        shapes = [[t.shape for t in _tensors(results)] for results in (given, wanted, exact)]
        is_comparable = shapes[0] == shapes[1] == shapes[2]
        if not is_comparable or not same(
            wanted, given, exact, tol=1e-5, equal_nan=True, log_error=lambda *_: None
        ):
            raise


def _in_parts(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def doubled(sample: SampleInput) -> SampleInput:
    """A sample in float64, on the CPU."""

    def double(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            return tensor
        return tensor.detach().double().requires_grad_(tensor.requires_grad)

    given, args, kwargs = tree_map_only(
        torch.Tensor, double, (sample.input, sample.args, sample.kwargs)
    )
    return SampleInput(
        given, args=args, kwargs=kwargs, output_process_fn_grad=sample.output_process_fn_grad
    )


def outcome(op: OpInfo, sample: Any, grad: bool, *, is_compiled: bool = False) -> list[Any]:
    """What an operator gives for a sample, and the gradients of its inputs."""

    def function(given: Any, args: Any, kwargs: Any) -> Any:
        return op(given, *args, **kwargs)

    if is_compiled:
        function = torch.compile(function, fullgraph=True, dynamic=False, backend="neuron")
    torch.neuron.manual_seed(0)  # type: ignore[attr-defined]
    found = [function(sample.input, sample.args, sample.kwargs)]
    if grad:
        processed = sample.output_process_fn_grad(found[0])
        outputs = [t for t in _tensors(processed) if t.requires_grad]
        inputs = [t for t in _tensors((sample.input, sample.args, sample.kwargs)) if t.is_leaf]
        inputs = [t for t in inputs if t.requires_grad]
        if outputs and inputs:
            ones = [torch.ones_like(t) for t in outputs]
            found += torch.autograd.grad(outputs, inputs, ones, allow_unused=True)
    return tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), found)  # type: ignore[no-any-return]


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compile.conformance")
    parser.add_argument("patterns", nargs="*", help="names of op_db, with wildcards; all if none")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="at most so many of each")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds a case may take")
    parser.add_argument("--write", action="store_true", help="write docs/compile_conformance.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # It seeds inside of the operator, which Dynamo does not trace; `outcome` seeds before.
    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    torch._dynamo.config.capture_scalar_outputs = True
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    names = [
        name
        for name in operators()
        if not options.patterns or any(fnmatch.fnmatch(name, p) for p in options.patterns)
    ]
    cases = [Case("compile", name, "op", dtype) for name in names for dtype in options.dtypes]
    rows = expectations.load(EXPECTED)
    results = []
    for result in run_cases(
        cases,
        partial(run, options.samples),
        jobs=options.jobs,
        chunk_size=8,
        timeout_seconds=options.timeout,
    ):
        results.append(expectations.judge(result, rows))
        for failure in results[-1].failures if results[-1].status in FAILURES else ():
            print(f"{result.case.name} {result.case.dtype}: {failure}", flush=True)
    counts = Counter(str(result.status) for result in results)
    print(", ".join(f"{n} {status}" for status, n in counts.items()))
    if options.write:
        text = conformance_report.render(sorted(results, key=lambda r: r.case), options.samples)
        DOCUMENT.write_text(text, encoding="utf-8")
    return 1 if any(result.status in FAILURES for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
