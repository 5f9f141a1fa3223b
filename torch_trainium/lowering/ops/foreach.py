"""Operators on lists of tensors: each member as the operator on one, in one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Number, Operand, Value

aten = torch.ops.aten

UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "clone", "cos", "cosh", "erf", "erfc", "exp"),
    *("expm1", "floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "max", "neg"),
    *("reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan"),
    *("tanh", "trunc"),
)

# With a list, a list of numbers or one number as the second operand: the operator's overload for
# a tensor, and that for a number.
BINARY = {
    "add": (aten.add.Tensor, aten.add.Scalar),
    "sub": (aten.sub.Tensor, aten.sub.Scalar),
    "mul": (aten.mul.Tensor, aten.mul.Scalar),
    "div": (aten.div.Tensor, aten.div.Scalar),
    "pow": (aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar),
    "clamp_min": (aten.clamp_min.Tensor, aten.clamp_min.default),
    "clamp_max": (aten.clamp_max.Tensor, aten.clamp_max.default),
    "maximum": (aten.maximum.default, aten.clamp_min.default),
    "minimum": (aten.minimum.default, aten.clamp_max.default),
}
# Whose lists of second operands are multiplied by one number.
SCALED = ("add", "sub")
# Powers by small integers are products.
STATIC = {"pow": ("exponent",)}


def _unary(name: str) -> None:
    overload = getattr(aten, name).default  # of `max` the one over all elements

    @lower(getattr(aten, f"_foreach_{name}"))
    def each(x: Builder, tensors: Sequence[Value]) -> list[Value]:
        return [x.call(overload, a) for a in tensors]


def _binary(name: str, with_tensor: Any, with_number: Any) -> None:
    packet = getattr(aten, f"_foreach_{name}")
    static = STATIC.get(name, ())

    if name in SCALED:

        @lower(packet.List)
        def with_scaled_list(
            x: Builder, tensors: Sequence[Value], others: Sequence[Value], *, alpha: Operand
        ) -> list[Value]:
            pairs = zip(tensors, others, strict=True)
            return [x.call(with_tensor, a, b, alpha=alpha) for a, b in pairs]
    else:

        @lower(packet.List)
        def with_list(x: Builder, tensors: Sequence[Value], others: Sequence[Value]) -> list[Value]:
            return [x.call(with_tensor, a, b) for a, b in zip(tensors, others, strict=True)]

    @lower(packet.Scalar, static=static)
    def with_scalar(x: Builder, tensors: Sequence[Value], number: Operand) -> list[Value]:
        return [x.call(with_number, a, number) for a in tensors]

    @lower(packet.ScalarList, static=static)
    def with_scalars(
        x: Builder, tensors: Sequence[Value], numbers: Sequence[Operand]
    ) -> list[Value]:
        return [x.call(with_number, a, b) for a, b in zip(tensors, numbers, strict=True)]


for _name in UNARY:
    _unary(_name)
for _name, _overloads in BINARY.items():
    _binary(_name, *_overloads)


@lower(aten._foreach_add.Tensor)
def add_tensor(
    x: Builder, tensors: Sequence[Value], other: Operand, *, alpha: Operand
) -> list[Value]:
    return [x.call(aten.add.Tensor, a, other, alpha=alpha) for a in tensors]


@lower(aten._foreach_mul.Tensor)
def mul_tensor(x: Builder, tensors: Sequence[Value], other: Operand) -> list[Value]:
    return [x.call(aten.mul.Tensor, a, other) for a in tensors]


@lower(aten._foreach_div.Tensor)
def div_tensor(x: Builder, tensors: Sequence[Value], other: Operand) -> list[Value]:
    return [x.call(aten.div.Tensor, a, other) for a in tensors]


@lower(aten._foreach_pow.ScalarAndTensor, static=("self",))
def pow_of_number(x: Builder, base: Number, exponents: Sequence[Value]) -> list[Value]:
    return [x.call(aten.pow.Scalar, base, exponent) for exponent in exponents]


@lower(aten._foreach_addcmul.Scalar, aten._foreach_addcmul.ScalarList)
def addcmul(
    x: Builder,
    tensors: Sequence[Value],
    first: Sequence[Value],
    second: Sequence[Value],
    values: Operand | Sequence[Operand],
) -> list[Value]:
    return _combined(x, aten.addcmul.default, tensors, first, second, values)


@lower(aten._foreach_addcdiv.Scalar, aten._foreach_addcdiv.ScalarList)
def addcdiv(
    x: Builder,
    tensors: Sequence[Value],
    first: Sequence[Value],
    second: Sequence[Value],
    values: Operand | Sequence[Operand],
) -> list[Value]:
    return _combined(x, aten.addcdiv.default, tensors, first, second, values)


def _combined(
    x: Builder,
    overload: Any,
    tensors: Sequence[Value],
    first: Sequence[Value],
    second: Sequence[Value],
    values: Operand | Sequence[Operand],
) -> list[Value]:
    each = values if isinstance(values, (list, tuple)) else [values] * len(tensors)
    return [
        x.call(overload, a, b, c, value=value)
        for a, b, c, value in zip(tensors, first, second, each, strict=True)
    ]


@lower(aten._foreach_lerp.List)
def lerp_list(
    x: Builder, tensors: Sequence[Value], ends: Sequence[Value], weights: Sequence[Value]
) -> list[Value]:
    triples = zip(tensors, ends, weights, strict=True)
    return [x.call(aten.lerp.Tensor, a, end, weight) for a, end, weight in triples]


@lower(aten._foreach_lerp.Scalar)
def lerp(
    x: Builder, tensors: Sequence[Value], ends: Sequence[Value], weight: Operand
) -> list[Value]:
    return [x.call(aten.lerp.Scalar, a, end, weight) for a, end in zip(tensors, ends, strict=True)]


@lower(aten._foreach_lerp.ScalarList)
def lerp_scalars(
    x: Builder, tensors: Sequence[Value], ends: Sequence[Value], weights: Sequence[Operand]
) -> list[Value]:
    triples = zip(tensors, ends, weights, strict=True)
    return [x.call(aten.lerp.Scalar, a, end, weight) for a, end, weight in triples]


@lower(aten._foreach_norm.Scalar, static=("ord",))
def norm(
    x: Builder, tensors: Sequence[Value], ord_: Number, dtype: torch.dtype | None
) -> list[Value]:
    overload = aten.linalg_vector_norm.default
    return [x.call(overload, a, ord_, None, False, dtype=dtype) for a in tensors]


@lower(aten._foreach_powsum.Scalar, static=("ord",))
def powsum(
    x: Builder, tensors: Sequence[Value], ord_: Number, dtype: torch.dtype | None
) -> list[Value]:
    wide = [a.to(dtype or a.dtype) for a in tensors]
    powers = [x.call(aten.pow.Tensor_Scalar, x.call(aten.abs.default, a), ord_) for a in wide]
    return [x.call(aten.sum.default, power) for power in powers]


@lower(aten._foreach_mm)
def mm(x: Builder, tensors: Sequence[Value], others: Sequence[Value]) -> list[Value]:
    return [x.call(aten.mm.default, a, b) for a, b in zip(tensors, others, strict=True)]


@lower(aten._foreach_copy)
def copy(x: Builder, tensors: Sequence[Value], sources: Sequence[Value]) -> list[Value]:
    return [x.call(aten.copy.default, a, b, False) for a, b in zip(tensors, sources, strict=True)]


@lower(aten._foreach_zero)
def zero(x: Builder, tensors: Sequence[Value]) -> list[Value]:
    return [x.constant(0, a.dtype, a.shape) for a in tensors]
