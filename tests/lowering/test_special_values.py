"""Infinities, NaN, zeros of both signs and the ends of the integers, in every pair."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from torch_trainium.eager import calls

from .compare import on_the_cpu

aten = torch.ops.aten

# No subnormal numbers: XLA's CPU programs take them for zero, which a test below says.
FLOATS = (
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0),
    *(10.0, -10.0, 100.0, -100.0, 1e-3, -1e-3, 0.9, -0.9, 1e5, -1e5, 20.7, -20.7),
)
# Not gelu: of infinity the CPU's kernel for float32 makes NaN, and the one for float64 infinity.
UNARY = [
    *(aten.abs, aten.neg, aten.sign, aten.sgn, aten.reciprocal, aten.sqrt, aten.rsqrt, aten.exp),
    *(aten.exp2, aten.expm1, aten.log, aten.log2, aten.log10, aten.log1p, aten.sin, aten.cos),
    *(aten.tan, aten.asin, aten.acos, aten.atan, aten.sinh, aten.cosh, aten.tanh, aten.asinh),
    *(aten.acosh, aten.atanh, aten.erf, aten.erfc, aten.erfinv, aten.lgamma, aten.digamma),
    *(aten.sigmoid, aten.relu, aten.silu, aten.ceil, aten.floor, aten.trunc, aten.round, aten.frac),
    *(aten.isnan, aten.isinf, aten.signbit, aten.nan_to_num, aten.logit, aten.sinc, aten.angle),
    *(aten.special_entr, aten.special_ndtri, aten.special_log_ndtr, aten.special_erfcx, aten.i0),
    *(aten.special_i1, aten.special_bessel_j0, aten.special_modified_bessel_k0),
]
BINARY = [
    *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.remainder.Tensor),
    *(aten.fmod.Tensor, aten.pow.Tensor_Tensor, aten.atan2.default, aten.hypot.default),
    *(aten.copysign.Tensor, aten.nextafter.default, aten.xlogy.Tensor, aten.logaddexp.default),
    *(aten.logaddexp2.default, aten.heaviside.default, aten.floor_divide.default, aten.eq.Tensor),
    *(aten.lt.Tensor, aten.ge.Tensor, aten.special_xlog1py.default, aten.logical_and.default),
]
# Of two zeros of different signs PyTorch's CPU kernels take either, by position in a vector.
EXTREMES = [aten.maximum.default, aten.minimum.default, aten.fmax.default, aten.fmin.default]
INTEGER = [
    *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.bitwise_left_shift.Tensor),
    *(aten.bitwise_right_shift.Tensor, aten.bitwise_xor.Tensor, aten.pow.Tensor_Tensor),
    *(aten.maximum.default, aten.lt.Tensor, aten.div.Tensor, aten.eq.Tensor),
]
DIVISIONS = [
    (aten.div.Tensor_mode, {"rounding_mode": "trunc"}),
    (aten.div.Tensor_mode, {"rounding_mode": "floor"}),
    (aten.remainder.Tensor, {}),
    (aten.fmod.Tensor, {}),
    (aten.gcd.default, {}),
]
INTEGERS = [torch.int8, torch.int32, torch.int64, torch.uint8]


@pytest.mark.parametrize("packet", UNARY, ids=str)
def test_functions_of_special_numbers(packet: Any) -> None:
    _agree(packet.default, torch.tensor(FLOATS))


@pytest.mark.parametrize("overload", BINARY, ids=str)
def test_operators_on_pairs_of_special_numbers(overload: Any) -> None:
    _agree(overload, *_pairs(torch.tensor(FLOATS)))


@pytest.mark.parametrize("overload", EXTREMES, ids=str)
def test_extremes_of_special_numbers(overload: Any) -> None:
    values = torch.tensor(FLOATS)
    _agree(overload, *_pairs(values[~torch.signbit(values) | (values != 0)]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("overload", INTEGER, ids=str)
def test_integers_wrap_around(overload: Any, dtype: torch.dtype) -> None:
    _agree(overload, *_pairs(_ends(dtype)))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(("overload", "named"), DIVISIONS, ids=str)
def test_integer_division(overload: Any, named: dict[str, Any], dtype: torch.dtype) -> None:
    a, b = _pairs(_ends(dtype))
    # The least number over -1 has no quotient: the CPU may end the process.
    possible = (b != 0) & ~((b == -1) & (a == torch.iinfo(dtype).min) & dtype.is_signed)
    if overload is aten.gcd.default:
        possible &= (a != torch.iinfo(dtype).min) & (b != torch.iinfo(dtype).min)
    _agree(overload, a[possible], b[possible], **named)


@pytest.mark.parametrize(("overload", "named"), DIVISIONS[:4], ids=str)
def test_integer_division_by_zero_is_an_error(overload: Any, named: dict[str, Any]) -> None:
    with on_the_cpu(), pytest.raises(RuntimeError, match="ZeroDivisionError"):
        calls.call(overload, torch.tensor([1, 2]), torch.tensor([1, 0]), **named)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float16], ids=str)
def test_a_number_that_the_dtype_cannot_hold_is_refused(dtype: torch.dtype) -> None:
    a, mask = torch.zeros(2, dtype=dtype), torch.tensor([True, False])
    with on_the_cpu():
        for overload, args in ((aten.fill_.Scalar, (a,)), (aten.masked_fill.Scalar, (a, mask))):
            with pytest.raises(RuntimeError, match="without overflow"):
                calls.call(overload, *args, 100_000)


@pytest.mark.parametrize("length", [1, 7, 8, 33, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("overload", EXTREMES, ids=str)
def test_the_greater_of_two_zeros_is_the_positive(
    overload: Any, dtype: torch.dtype, length: int
) -> None:
    zeros = torch.zeros(length, dtype=dtype)
    is_maximum = overload in (aten.maximum.default, aten.fmax.default)
    with on_the_cpu():
        for pair in ((zeros, -zeros), (-zeros, zeros)):
            given = calls.call(overload, *pair)
            assert torch.signbit(given).eq(not is_maximum).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("length", [3, 100_000])  # one thread's work, and that of several
def test_arithmetic_takes_subnormal_numbers_for_zero(length: int, dtype: torch.dtype) -> None:
    least = torch.full((length,), torch.finfo(dtype).tiny, dtype=dtype)
    subnormal = least / 2
    assert (subnormal != 0).all()
    with on_the_cpu():
        assert (calls.call(aten.mul.Tensor, least, torch.tensor(0.5, dtype=dtype)) == 0).all()
        assert (calls.call(aten.add.Tensor, subnormal, subnormal) == 0).all()
        assert calls.call(aten.eq.Scalar, subnormal, 0).all()
        for kept in (aten.clone.default, aten.neg.default, aten.abs.default):
            assert (calls.call(kept, subnormal) != 0).all()


def test_subnormal_numbers_of_float16_are_kept() -> None:
    a = torch.full((5,), 2.0**-20, dtype=torch.float16)
    _agree(aten.mul.Tensor, a, torch.full_like(a, 0.5))


@pytest.mark.parametrize("overload", [aten.fmod.Tensor, aten.remainder.Tensor], ids=str)
def test_remainders_of_huge_quotients_are_exact(overload: Any) -> None:
    a, b = torch.tensor([1e30, 5e8, 3e38]), torch.tensor([1e-30, 1e-30, 0.7])
    exact = [math.fmod(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    with on_the_cpu():
        assert calls.call(overload, a, b).tolist() == exact


@pytest.mark.parametrize("number", [0.1, 0.7, 1.1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "overload",
    [
        *(aten.eq.Scalar, aten.ne.Scalar, aten.lt.Scalar, aten.ge.Scalar, aten.fmod.Scalar),
        *(aten.remainder.Scalar, aten.pow.Tensor_Scalar),
    ],
    ids=str,
)
def test_numbers_beside_half_width_tensors_are_rounded(
    overload: Any, dtype: torch.dtype, number: float
) -> None:
    a = torch.tensor([number, 2 * number, 3.0, 0.25]).to(dtype)
    with on_the_cpu():
        assert torch.equal(calls.call(overload, a, number), overload(a, number))


def _agree(overload: Any, *arguments: torch.Tensor, **named: Any) -> None:
    with on_the_cpu():
        ours = calls.call(overload, *arguments, **named)
    theirs = overload(*arguments, **named)
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    if theirs.is_floating_point():
        zero = theirs == 0
        assert torch.equal(torch.signbit(ours[zero]), torch.signbit(theirs[zero]))


def _pairs(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    count = len(values)
    return values.repeat_interleave(count), values.repeat(count)


def _ends(dtype: torch.dtype) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    near = [0, 1, 2, 3, 7, limits.bits - 1, limits.bits, limits.max - 1, limits.max, limits.min]
    return torch.tensor(near + ([-1, -2, -7, limits.min + 1] if limits.min else []), dtype=dtype)
