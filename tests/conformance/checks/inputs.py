"""Forward values against the CPU, on every kind of input the databases can make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import torch
from torch.testing._internal.opinfo.core import SampleInput
from torch.testing._internal.opinfo.definitions.nested import njt_op_db

from ..case import Result, Skip
from ..mirror import Mirror, tensors_in
from ..outcome import observe
from .registry import all_dtypes, body_check, only, probe_check

_LAYOUTS = {
    "coo": torch.sparse_coo,
    "csr": torch.sparse_csr,
    "csc": torch.sparse_csc,
    "bsr": torch.sparse_bsr,
    "bsc": torch.sparse_bsc,
}


def call(op: Any, sample: Any) -> Any:
    return op(sample.input, *sample.args, **sample.kwargs)


@probe_check("forward", "F", dtypes=all_dtypes, aliasing=True, inputs_after=True)
def forward(op: Any, sample: Any) -> Any:
    return call(op, sample)


def _reference_inputs(op: Any, device: str, dtype: torch.dtype) -> Iterable[Any]:
    return op.reference_inputs(device, dtype)


@probe_check(
    "reference",
    "R",
    applies=lambda op: op.reference_inputs_func is not None,
    dtypes=only(torch.float32, torch.int64, torch.complex64, torch.bfloat16, torch.bool),
    samples=_reference_inputs,
)
def reference(op: Any, sample: Any) -> Any:
    return call(op, sample)


def _noncontiguous(op: Any, device: str, dtype: torch.dtype) -> Iterator[Any]:
    for sample in op.sample_inputs(device, dtype):
        if all(tensor.layout is torch.strided for tensor in tensors_in(sample)):
            yield sample.noncontiguous()


@probe_check(
    "noncontiguous",
    "N",
    dtypes=only(torch.float32, torch.int64, torch.complex64),
    samples=_noncontiguous,
)
def noncontiguous(op: Any, sample: Any) -> Any:
    return call(op, sample)


def _conjugate(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, held conjugated in memory behind the conjugate bit."""
    return torch.conj_physical(tensor).conj()


def _negate(tensor: torch.Tensor) -> torch.Tensor:
    return torch.neg(tensor)._neg_view()


def _lazily(transform: Any, op: Any, device: str, dtype: torch.dtype) -> Iterator[SampleInput]:
    def apply(tensor: Any) -> Any:
        if isinstance(tensor, torch.Tensor) and tensor.dtype == dtype:
            return transform(tensor.detach())
        return tensor

    for sample in op.sample_inputs(device, dtype):
        yield sample.transform(apply)


@probe_check(
    "conj",
    "C",
    applies=lambda op: op.test_conjugated_samples,
    dtypes=lambda op, device: {torch.complex64} & set(op.supported_dtypes(device)),
    samples=lambda *args: _lazily(_conjugate, *args),
)
def conj(op: Any, sample: Any) -> Any:
    return call(op, sample)


@probe_check(
    "neg",
    "M",
    applies=lambda op: op.test_neg_view,
    dtypes=lambda op, device: {torch.float64, torch.complex128} & set(op.supported_dtypes(device)),
    samples=lambda *args: _lazily(_negate, *args),
)
def neg(op: Any, sample: Any) -> Any:
    return call(op, sample)


@probe_check(
    "neg_conj",
    "K",
    applies=lambda op: op.test_neg_view and op.test_conjugated_samples,
    dtypes=lambda op, device: {torch.complex128} & set(op.supported_dtypes(device)),
    samples=lambda *args: _lazily(lambda t: _negate(_conjugate(t)), *args),
)
def neg_conj(op: Any, sample: Any) -> Any:
    return call(op, sample)


def _register_sparse(short: str, layout: torch.layout) -> None:
    def samples(op: Any, device: str, dtype: torch.dtype) -> Iterator[Any]:
        given = getattr(op, f"sample_inputs_sparse_{short}_func")
        if getattr(given, "__name__", "") != "_sample_inputs_unspecified":
            yield from op.sample_inputs_sparse(layout, device, dtype)
            return
        # Elementwise functions come without sparse samples: theirs are made from the dense ones.
        blocks = (2, 2) if short in ("bsr", "bsc") else None
        for sample in op.sample_inputs(device, dtype):
            if sample.input.dim() == 2 and sample.input.numel() > 0:
                sparse = sample.input.detach().to_sparse(layout=layout, blocksize=blocks)
                yield SampleInput(sparse, args=sample.args, kwargs=sample.kwargs)

    @probe_check(
        f"sparse_{short}",
        "S",
        applies=lambda op: bool(op.supports_sparse_layout(layout)),
        dtypes=only(torch.float32, torch.complex64, torch.int64, torch.bool),
        samples=samples,
    )
    def sparse(op: Any, sample: Any) -> Any:
        return call(op, sample)


for _short, _layout in _LAYOUTS.items():
    _register_sparse(_short, _layout)


@cache
def _jagged_operators() -> dict[str, Any]:
    return {op.full_name: op for op in njt_op_db if op.supports_njt}


def _jagged(op: Any, device: str, dtype: torch.dtype) -> Iterable[Any]:
    return _jagged_operators()[op.full_name].sample_inputs(device, dtype)


@probe_check(
    "jagged",
    "T",
    applies=lambda op: op.full_name in _jagged_operators(),
    dtypes=lambda op, device: {torch.float32} & set(op.supported_dtypes(device)),
    samples=_jagged,
)
def jagged(op: Any, sample: Any) -> Any:
    return call(_jagged_operators()[op.full_name], sample)


@body_check("errors", "E", applies=lambda op: op.error_inputs_func is not None, dtypes=None)
def errors(op: Any, device: str, dtype: torch.dtype, result: Result) -> None:
    """Wrong arguments raise the exception that the CPU raises, with the message PyTorch tests."""
    for index, error_input in enumerate(op.error_inputs(device)):
        sample = error_input.sample_input
        mirrored = Mirror(device, "cpu")(sample)
        expected = observe(lambda s=mirrored: call(op, s))
        actual = observe(lambda s=sample: call(op, s))
        result.samples += 1
        kinds = {tensor.device.type for tensor in tensors_in(sample)}
        if expected.error is None and len(kinds) > 1:
            # Wrong on a device only, an operand being on the CPU: as the database says.
            if not isinstance(actual.error, error_input.error_type) or not re.search(
                error_input.error_regex, str(actual.error)
            ):
                result.fail(f"error input {index}: {actual}; not {error_input.error_regex!r}")
        elif type(actual.error) is not type(expected.error) or actual.is_silent:
            result.fail(f"error input {index}: {actual}; the CPU {expected}")
    if result.samples == 0:
        raise Skip("no error inputs")
