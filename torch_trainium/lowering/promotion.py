"""PyTorch's type promotion, over arrays and numbers."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.values import Operand, Scalar, Value


def result_dtype(operands: Iterable[Operand]) -> torch.dtype:
    """The dtype PyTorch promotes these operands to.

    Arrays with dimensions decide, then arrays without, then numbers: a later group counts only
    where its category (bool, integer, real, complex) is higher.
    """
    dimensioned: torch.dtype | None = None
    zero_dim: torch.dtype | None = None
    number: torch.dtype | None = None
    for operand in operands:
        if isinstance(operand, Value) and operand.rank > 0:
            dimensioned = _promote(dimensioned, operand.dtype)
        elif isinstance(operand, Value):
            zero_dim = _promote(zero_dim, operand.dtype)
        elif isinstance(operand, Scalar):
            if operand.dtype is not None:
                zero_dim = _promote(zero_dim, operand.dtype)
            else:
                number = _promote(number, _default_dtype(operand.kind))
        else:
            number = _promote(number, _default_dtype(type(operand)))
    return _combine(dimensioned, _combine(zero_dim, number)) or torch.get_default_dtype()


def floating(dtype: torch.dtype) -> torch.dtype:
    """What an operator with real results gives for an operand of this dtype."""
    return torch.get_default_dtype() if dtypes.is_integral(dtype) else dtype


def _promote(known: torch.dtype | None, dtype: torch.dtype) -> torch.dtype:
    return dtype if known is None else torch.promote_types(known, dtype)


def _default_dtype(kind: type) -> torch.dtype:
    if kind is bool:
        return torch.bool
    if kind is int:
        return torch.int64
    default = torch.get_default_dtype()
    return default if kind is float else dtypes.complex_dtype(default)


def _combine(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    if higher is None or lower is None:
        return higher or lower
    if dtypes.category(lower) <= dtypes.category(higher):
        return higher
    if lower.is_complex and higher.is_floating_point:
        return dtypes.complex_dtype(higher)
    return lower if dtypes.category(higher) < 2 else torch.promote_types(higher, lower)
