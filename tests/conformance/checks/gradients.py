"""Gradients: against the CPU in every dtype, and against finite differences in double."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_utils import TestGradients

from ..case import Result, Skip
from ..mirror import tensors_in
from ..outcome import Outcome, observe
from .inputs import call
from .registry import body_check, probe_check


def _backward_dtypes(op: Any, device: str) -> Iterable[torch.dtype]:
    return set(op.supported_backward_dtypes(device)) & set(op.supported_dtypes(device))


def _double(op: Any, device: str) -> Iterable[torch.dtype]:
    return {torch.float64, torch.complex128} & set(_backward_dtypes(op, device))


def _with_gradients(op: Any, device: str, dtype: torch.dtype) -> Iterable[Any]:
    return op.sample_inputs(device, dtype, requires_grad=True)


def gradients(outputs: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Gradients of the differentiable outputs, each weighted by a fixed uneven pattern."""
    roots = [tensor for tensor in tensors_in(outputs) if tensor.requires_grad]
    if not roots or not inputs:
        raise Skip("nothing to differentiate")
    weights = [_weights(root) for root in roots]
    return list(torch.autograd.grad(roots, inputs, weights, allow_unused=True))


def _weights(root: torch.Tensor) -> torch.Tensor:
    if root.layout is not torch.strided or root.is_nested:
        return torch.ones_like(root, requires_grad=False)
    steps = torch.arange(root.numel(), device="cpu") % 7 + 1
    return (steps / 4).reshape(root.shape).to(root.dtype).to(root.device)


@probe_check(
    "backward",
    "B",
    applies=lambda op: op.supports_autograd,
    dtypes=_backward_dtypes,
    samples=_with_gradients,
)
def backward(op: Any, sample: Any) -> Any:
    inputs = [tensor for tensor in tensors_in(sample) if tensor.requires_grad]
    outputs = call(op, sample)
    if sample.output_process_fn_grad is not None:
        outputs = sample.output_process_fn_grad(outputs)
    return outputs, gradients(outputs, inputs)


def _against_finite_differences(check: Callable[[str], Any], device: str, result: Result) -> None:
    """Fails where PyTorch's own gradient check passes on the CPU and not on the device."""
    actual = _outcome(check, device)
    if actual.error is None:
        result.samples += 1
        return
    expected = _outcome(check, "cpu")
    if expected.error is None:
        result.fail(f"{actual}; the CPU {expected}")
    else:
        raise Skip(f"the CPU {expected}")


def _outcome(check: Callable[[str], Any], device: str) -> Outcome:
    outcome = observe(lambda: check(device))
    if isinstance(outcome.error, unittest.SkipTest):
        raise Skip(str(outcome.error))
    return outcome


@body_check("gradcheck", "G", applies=lambda op: op.supports_autograd, dtypes=_double)
def gradcheck(op: Any, device: str, dtype: torch.dtype, result: Result) -> None:
    helper = TestGradients()._grad_test_helper
    _against_finite_differences(lambda d: helper(d, dtype, op, op.get_op()), device, result)


@body_check("gradgrad", "D", applies=lambda op: op.supports_gradgrad, dtypes=_double)
def gradgrad(op: Any, device: str, dtype: torch.dtype, result: Result) -> None:
    helper = partial(TestGradients()._check_helper, check="bwgrad_bwgrad")
    _against_finite_differences(lambda d: helper(d, dtype, op, op.get_op()), device, result)


@body_check("forward_ad", "A", applies=lambda op: op.supports_forward_ad, dtypes=_double)
def forward_ad(op: Any, device: str, dtype: torch.dtype, result: Result) -> None:
    helper = partial(
        TestGradients()._grad_test_helper,
        check_forward_ad=True,
        check_backward_ad=False,
        check_batched_grad=False,
        check_batched_forward_grad=op.check_batched_forward_grad,
    )
    _against_finite_differences(lambda d: helper(d, dtype, op, op.get_op()), device, result)


@body_check(
    "inplace_grad",
    "J",
    applies=lambda op: op.inplace_variant is not None and op.supports_inplace_autograd,
    dtypes=_double,
)
def inplace_grad(op: Any, device: str, dtype: torch.dtype, result: Result) -> None:
    tests = TestGradients()
    inplace = tests._get_safe_inplace(op.get_inplace())
    helper = tests._grad_test_helper
    _against_finite_differences(
        lambda d: helper(d, dtype, op, inplace, check_batched_grad=False), device, result
    )
