"""Builder methods that compute element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dtypes
from torch_trainium.lowering.core import Core
from torch_trainium.lowering.values import Number, Value

_CONVERSIONS_BY_WAY_OF = {torch.float8_e4m3fn: torch.float32, torch.float8_e5m2: torch.float32}


class Elementwise(Core):
    """Arithmetic. Two operands have one dtype; shapes broadcast; numbers take the other's dtype."""

    # Conversions and shapes

    def convert(self, a: Value, dtype: torch.dtype) -> Value:
        """As `Tensor.to(dtype)`: to bool asks for non-zero, to integers truncates."""
        if a.dtype is dtype:
            return a
        dtypes.element_type(dtype)  # raises for those that programs have not
        if dtype is torch.bool:
            return a.ne(0)
        if a.dtype.is_complex and not dtype.is_complex:
            return self.convert(self.real(a), dtype)
        if dtype.is_complex and not a.dtype.is_complex:
            part = self.convert(a, dtypes.real_dtype(dtype))
            return self.complex(part, self.constant(0, part.dtype, part.shape))
        if a.dtype is torch.bool and dtype.is_floating_point:
            # XLA takes a product with a converted boolean for a choice, and false * NaN for 0.
            return self.select(a, self.constant(1, dtype), self.constant(0, dtype))
        via = _CONVERSIONS_BY_WAY_OF.get(a.dtype) or _CONVERSIONS_BY_WAY_OF.get(dtype)
        if via is not None and via not in (a.dtype, dtype):
            return self.convert(self.convert(a, via), dtype)
        if a.dtype.is_floating_point and dtype is torch.uint8:
            # As C: through a signed integer, so that -1.0 becomes 255.
            a = self.convert(a, torch.int64)
        return self.emit(self.hlo.ConvertOp(self.type_of(dtype, a.shape), a.ir), dtype)

    def bitcast(self, a: Value, dtype: torch.dtype) -> Value:
        """The same bits as elements of another dtype of the same size."""
        return self.emit(self.hlo.BitcastConvertOp(self.type_of(dtype, a.shape), a.ir), dtype)

    def broadcast(self, a: Value, shape: Sequence[int]) -> Value:
        """As `Tensor.expand`, without -1."""
        shape = tuple(shape)
        if a.shape == shape:
            return a
        new = len(shape) - a.rank
        if new < 0 or any(n not in (1, shape[new + d]) for d, n in enumerate(a.shape)):
            raise LoweringError(f"an array of shape {a.shape} does not expand to {shape}")
        kept = [d for d in range(a.rank) if a.shape[d] == shape[new + d]]
        if len(kept) < a.rank:
            narrow = self.type_of(a.dtype, [a.shape[d] for d in kept])
            a = self.emit(self.hlo.ReshapeOp(narrow, a.ir), a.dtype)
        dimensions = [new + d for d in kept]
        operation = self.hlo.BroadcastInDimOp(self.type_of(a.dtype, shape), a.ir, dimensions)
        return self.emit(operation, a.dtype)

    def broadcast_together(self, *values: Value) -> list[Value]:
        """All of them in the shape they broadcast to."""
        shape = broadcast_shape(*(v.shape for v in values))
        return [self.broadcast(v, shape) for v in values]

    # One operand

    def abs(self, a: Value) -> Value:
        """Magnitude; of a complex number a real one."""
        return self.emit(self.hlo.AbsOp(a.ir), dtypes.real_dtype(a.dtype))

    def negate(self, a: Value) -> Value:
        """-a."""
        return self._unary(self.hlo.NegOp, a)

    def sign(self, a: Value) -> Value:
        """-1, 0 or 1; NaN stays."""
        return self._unary(self.hlo.SignOp, a)

    def exp(self, a: Value) -> Value:
        """e to the a."""
        return self._unary(self.hlo.ExpOp, a)

    def expm1(self, a: Value) -> Value:
        """e to the a, minus 1."""
        return self._unary(self.hlo.Expm1Op, a)

    def log(self, a: Value) -> Value:
        """Natural logarithm."""
        return self._unary(self.hlo.LogOp, a)

    def log1p(self, a: Value) -> Value:
        """Natural logarithm of 1 + a."""
        return self._unary(self.hlo.Log1pOp, a)

    def sqrt(self, a: Value) -> Value:
        """Square root."""
        return self._unary(self.hlo.SqrtOp, a)

    def rsqrt(self, a: Value) -> Value:
        """1 / sqrt(a)."""
        return self._unary(self.hlo.RsqrtOp, a)

    def logistic(self, a: Value) -> Value:
        """1 / (1 + exp(-a))."""
        return self._unary(self.hlo.LogisticOp, a)

    def sin(self, a: Value) -> Value:
        """Sine."""
        return self._unary(self.hlo.SineOp, a)

    def cos(self, a: Value) -> Value:
        """Cosine."""
        return self._unary(self.hlo.CosineOp, a)

    def tan(self, a: Value) -> Value:
        """Tangent."""
        return self._unary(self.hlo.TanOp, a)

    def tanh(self, a: Value) -> Value:
        """Hyperbolic tangent."""
        return self._unary(self.hlo.TanhOp, a)

    def ceil(self, a: Value) -> Value:
        """Rounded up."""
        return self._unary(self.hlo.CeilOp, a)

    def floor(self, a: Value) -> Value:
        """Rounded down."""
        return self._unary(self.hlo.FloorOp, a)

    def round(self, a: Value) -> Value:
        """Rounded to the nearest integer, halves to even."""
        return self._unary(self.hlo.RoundNearestEvenOp, a)

    def is_finite(self, a: Value) -> Value:
        """Neither infinite nor NaN."""
        return self.emit(self.hlo.IsFiniteOp(a.ir), torch.bool)

    def not_(self, a: Value) -> Value:
        """Bitwise complement; of booleans logical."""
        return self._unary(self.hlo.NotOp, a)

    def popcount(self, a: Value) -> Value:
        """Number of one bits."""
        return self._unary(self.hlo.PopulationCountOp, a)

    def real(self, a: Value) -> Value:
        """Real part."""
        if not a.dtype.is_complex:
            return a
        return self.emit(self.hlo.RealOp(a.ir), dtypes.real_dtype(a.dtype))

    def imag(self, a: Value) -> Value:
        """Imaginary part."""
        return self.emit(self.hlo.ImagOp(a.ir), dtypes.real_dtype(a.dtype))

    def conj(self, a: Value) -> Value:
        """Complex conjugate."""
        return self.complex(self.real(a), -self.imag(a)) if a.dtype.is_complex else a

    def chlo_unary(self, name: str, a: Value) -> Value:
        """A function of the CHLO dialect by its name, such as "Erf" or "Lgamma"."""
        return self._unary(getattr(self.chlo, f"{name}Op"), a)

    # Two operands

    def add(self, a: Value | Number, b: Value | Number) -> Value:
        """a + b."""
        return self._binary(self.hlo.AddOp, a, b)

    def subtract(self, a: Value | Number, b: Value | Number) -> Value:
        """a - b."""
        return self._binary(self.hlo.SubtractOp, a, b)

    def multiply(self, a: Value | Number, b: Value | Number) -> Value:
        """a * b."""
        return self._binary(self.hlo.MulOp, a, b)

    def divide(self, a: Value | Number, b: Value | Number) -> Value:
        """a / b; integers truncate, and division by zero must be excluded before."""
        return self._binary(self.hlo.DivOp, a, b)

    def remainder(self, a: Value | Number, b: Value | Number) -> Value:
        """The rest of a truncated division, with the sign of a."""
        if isinstance(a, Value) and a.dtype.is_complex:
            raise LoweringError("complex numbers have no remainder")
        return self._binary(self.hlo.RemOp, a, b)

    def power(self, a: Value | Number, b: Value | Number) -> Value:
        """a to the b."""
        return self._binary(self.hlo.PowOp, a, b)

    def atan2(self, a: Value | Number, b: Value | Number) -> Value:
        """Angle of the point (b, a)."""
        return self._binary(self.hlo.Atan2Op, a, b)

    def maximum(self, a: Value | Number, b: Value | Number) -> Value:
        """The larger; NaN wins."""
        return self._binary(self.hlo.MaxOp, a, b)

    def minimum(self, a: Value | Number, b: Value | Number) -> Value:
        """The smaller; NaN wins."""
        return self._binary(self.hlo.MinOp, a, b)

    def and_(self, a: Value, b: Value) -> Value:
        """Bitwise and; of booleans logical."""
        return self._binary(self.hlo.AndOp, a, b)

    def or_(self, a: Value, b: Value) -> Value:
        """Bitwise or; of booleans logical."""
        return self._binary(self.hlo.OrOp, a, b)

    def xor(self, a: Value, b: Value) -> Value:
        """Bitwise exclusive or."""
        return self._binary(self.hlo.XorOp, a, b)

    def shift_left(self, a: Value, b: Value | Number) -> Value:
        """a << b; zero where b is not less than the width."""
        return self._binary(self.hlo.ShiftLeftOp, a, b)

    def shift_right(self, a: Value, b: Value | Number) -> Value:
        """a >> b, filling with the sign bit of signed integers and zero of unsigned ones."""
        signed = a.dtype.is_signed
        operation = self.hlo.ShiftRightArithmeticOp if signed else self.hlo.ShiftRightLogicalOp
        return self._binary(operation, a, b)

    def shift_right_logical(self, a: Value, b: Value | Number) -> Value:
        """a >> b, filling with zero."""
        return self._binary(self.hlo.ShiftRightLogicalOp, a, b)

    def compare(self, a: Value | Number, direction: str, b: Value | Number) -> Value:
        """A boolean array; direction is EQ, NE, LT, LE, GT or GE."""
        left, right = self._pair(a, b)
        attribute = self.hlo.ComparisonDirectionAttr.get(direction)
        return self.emit(self.hlo.CompareOp(left.ir, right.ir, attribute), torch.bool)

    def complex(self, real: Value, imag: Value) -> Value:
        """A complex array from its parts."""
        left, right = self._pair(real, imag)
        operation = self.hlo.ComplexOp(left.ir, right.ir)
        return self.emit(operation, dtypes.complex_dtype(left.dtype))

    # Choices

    def select(self, condition: Value, a: Value | Number, b: Value | Number) -> Value:
        """a where the condition holds, else b."""
        left, right = self._pair(a, b)
        condition, left, right = self.broadcast_together(condition, left, right)
        operation = self.hlo.SelectOp(condition.ir, left.ir, right.ir)
        return self.emit(operation, left.dtype)

    def clamp(self, low: Value | Number, a: Value, high: Value | Number) -> Value:
        """a within [low, high]; NaN stays."""
        return self.minimum(self.maximum(a, low), high)

    def is_nan(self, a: Value) -> Value:
        """Not a number; a complex number is none if a part is none."""
        return a.ne(a)

    def is_inf(self, a: Value) -> Value:
        """Infinite, of either sign."""
        return self.abs(a).eq(float("inf"))

    def has_sign(self, a: Value) -> Value:
        """The sign bit of real numbers, which -0.0 and some NaNs have too."""
        integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.dtype.itemsize]
        return self.bitcast(a, integer) < 0

    def copysign(self, a: Value, b: Value) -> Value:
        """The magnitude of a with the sign of b."""
        size = self.abs(a)
        return self.select(self.has_sign(b), -size, size)

    def _unary(self, operation: Any, a: Value) -> Value:
        return self.emit(operation(a.ir), a.dtype)

    def _binary(self, operation: Any, a: Value | Number, b: Value | Number) -> Value:
        left, right = self._pair(a, b)
        return self.emit(operation(left.ir, right.ir), left.dtype)

    def _pair(self, a: Value | Number, b: Value | Number) -> list[Value]:
        if not isinstance(a, Value):
            if not isinstance(b, Value):
                raise TypeError(f"at least one of {a} and {b} has to be an array")
            a = self.constant(a, b.dtype)
        elif not isinstance(b, Value):
            b = self.constant(b, a.dtype)
        if a.dtype is not b.dtype:
            raise TypeError(f"operands have two dtypes, {a.dtype} and {b.dtype}: convert one")
        return [a, b] if a.shape == b.shape else self.broadcast_together(a, b)


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that these broadcast to; raises RuntimeError where they do not."""
    broadcast: Any = torch.broadcast_shapes
    return tuple(broadcast(*shapes))
