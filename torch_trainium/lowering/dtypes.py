"""PyTorch's dtypes and StableHLO's element types, and the rules between them."""

from __future__ import annotations

import torch

from torch_trainium.errors import LoweringError

ELEMENT_TYPES = {
    torch.bool: "i1",
    torch.uint8: "ui8",
    torch.uint16: "ui16",
    torch.uint32: "ui32",
    torch.uint64: "ui64",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
}

# What PyTorch computes in where a dtype is only for storage.
COMPUTE_DTYPES = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
}

_REAL_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
_COMPLEX_OF = {
    torch.float16: torch.complex64,
    torch.bfloat16: torch.complex64,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}


def element_type(dtype: torch.dtype) -> str:
    """The name of StableHLO's element type; raises LoweringError where it has none."""
    name = ELEMENT_TYPES.get(dtype)
    if name is None:
        raise LoweringError(
            f"programs have no {str(dtype).removeprefix('torch.')}; convert the tensor to a dtype "
            "they have"
        )
    return name


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype an elementwise operator computes in."""
    return COMPUTE_DTYPES.get(dtype, dtype)


def scatter_dtype(dtype: torch.dtype) -> torch.dtype:
    """What elements are combined in by a scatter, which targets have for real numbers.

    Of booleans, 0 and 1, sums, products and extremes are right as float32. Integers stay: their
    sums wrap.
    """
    return torch.float32 if dtype is torch.bool else compute_dtype(dtype)


def counting_dtype(most: int) -> torch.dtype:
    """What counts up to `most`: float32 while exact, as targets scatter no sums of integers."""
    return torch.float32 if most <= 2**24 else torch.int32


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the absolute value: complex64 gives float32, others themselves."""
    return _REAL_PARTS.get(dtype, dtype)


def complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """The complex dtype whose parts have this one."""
    return _COMPLEX_OF.get(dtype, dtype)


def is_integral(dtype: torch.dtype) -> bool:
    """Whether a dtype holds integers or booleans."""
    return not (dtype.is_floating_point or dtype.is_complex)


def category(dtype: torch.dtype) -> int:
    """Position in PyTorch's order of promotion: bool, integer, real, complex."""
    if dtype is torch.bool:
        return 0
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1
