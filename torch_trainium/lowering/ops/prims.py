"""The primitives that PyTorch's reference decompositions end in."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Number, Operand, Value

aten = torch.ops.aten
prims = torch.ops.prims

# Primitives that are an ATen operator on operands of one dtype and shape.
AS_ATEN = {
    prims.abs: aten.abs.default,
    prims.acos: aten.acos.default,
    prims.acosh: aten.acosh.default,
    prims.add: aten.add.Tensor,
    prims.asin: aten.asin.default,
    prims.asinh: aten.asinh.default,
    prims.atan: aten.atan.default,
    prims.atan2: aten.atan2.default,
    prims.atanh: aten.atanh.default,
    prims.bessel_i0: aten.i0.default,
    prims.bessel_i0e: aten.special_i0e.default,
    prims.bessel_i1: aten.special_i1.default,
    prims.bessel_i1e: aten.special_i1e.default,
    prims.bitwise_and: aten.bitwise_and.Tensor,
    prims.bitwise_not: aten.bitwise_not.default,
    prims.bitwise_or: aten.bitwise_or.Tensor,
    prims.bitwise_xor: aten.bitwise_xor.Tensor,
    prims.ceil: aten.ceil.default,
    prims.cos: aten.cos.default,
    prims.cosh: aten.cosh.default,
    prims.digamma: aten.digamma.default,
    prims.eq: aten.eq.Tensor,
    prims.erf: aten.erf.default,
    prims.erf_inv: aten.erfinv.default,
    prims.erfc: aten.erfc.default,
    prims.exp: aten.exp.default,
    prims.exp2: aten.exp2.default,
    prims.expm1: aten.expm1.default,
    prims.floor: aten.floor.default,
    prims.fmax: aten.fmax.default,
    prims.fmin: aten.fmin.default,
    prims.fmod: aten.fmod.Tensor,
    prims.gcd: aten.gcd.default,
    prims.ge: aten.ge.Tensor,
    prims.gt: aten.gt.Tensor,
    prims.hypot: aten.hypot.default,
    prims.isfinite: aten.isfinite.default,
    prims.le: aten.le.Tensor,
    prims.lgamma: aten.lgamma.default,
    prims.log: aten.log.default,
    prims.log10: aten.log10.default,
    prims.log1p: aten.log1p.default,
    prims.log2: aten.log2.default,
    prims.lt: aten.lt.Tensor,
    prims.maximum: aten.maximum.default,
    prims.minimum: aten.minimum.default,
    prims.mul: aten.mul.Tensor,
    prims.ndtri: aten.special_ndtri.default,
    prims.ne: aten.ne.Tensor,
    prims.neg: aten.neg.default,
    prims.nextafter: aten.nextafter.default,
    prims.pow: aten.pow.Tensor_Tensor,
    prims.reciprocal: aten.reciprocal.default,
    prims.remainder: aten.remainder.Tensor,
    prims.round: aten.round.default,
    prims.rsqrt: aten.rsqrt.default,
    prims.shift_left: aten.bitwise_left_shift.Tensor,
    prims.shift_right_arithmetic: aten.bitwise_right_shift.Tensor,
    prims.sign: aten.sgn.default,
    prims.signbit: aten.signbit.default,
    prims.sin: aten.sin.default,
    prims.sinh: aten.sinh.default,
    prims.spherical_bessel_j0: aten.special_spherical_bessel_j0.default,
    prims.sqrt: aten.sqrt.default,
    prims.sub: aten.sub.Tensor,
    prims.tan: aten.tan.default,
    prims.tanh: aten.tanh.default,
    prims.trunc: aten.trunc.default,
    prims.where: aten.where.self,
    prims.zeta: aten.special_zeta.default,
    prims.amax: aten.amax.default,
    prims.amin: aten.amin.default,
    prims.clone: aten.clone.default,
    prims.conj: aten.conj_physical.default,
    prims.imag: aten.imag.default,
    prims.real: aten.real.default,
    prims.rev: aten.flip.default,
    prims.transpose: aten.permute.default,
}


def _forward(primitive: torch._ops.OpOverloadPacket, overload: torch._ops.OpOverload) -> None:
    @lower(primitive)
    def forward(
        x: Builder, a: Operand, b: Operand | None = None, c: Operand | None = None
    ) -> Value:
        return x.call(overload, *(operand for operand in (a, b, c) if operand is not None))


for _primitive, _overload in AS_ATEN.items():
    _forward(_primitive, _overload)


@lower(prims.div)
def div(x: Builder, a: Value, b: Value) -> Value:
    mode = None if a.dtype.is_floating_point or a.dtype.is_complex else "trunc"
    return x.call(aten.div.Tensor_mode, a, b, rounding_mode=mode)


@lower(prims.broadcast_in_dim)
def broadcast_in_dim(
    x: Builder, a: Value, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Value:
    placed = [1] * len(shape)
    for d, to in enumerate(broadcast_dimensions):
        placed[to] = a.shape[d]
    return x.broadcast(x.reshape(a, placed), shape)


@lower(prims.convert_element_type)
def convert_element_type(x: Builder, a: Value, dtype: torch.dtype) -> Value:
    return a.to(dtype)


@lower(prims.device_put)
def device_put(x: Builder, a: Value) -> Value:
    return a


@lower(prims.squeeze)
def squeeze(x: Builder, a: Value, dimensions: Sequence[int]) -> Value:
    return x.squeeze(a, dimensions)


@lower(prims.collapse_view)
def collapse_view(x: Builder, a: Value, start: int, end: int) -> Value:
    return x.reshape(a, [*a.shape[:start], -1, *a.shape[end + 1 :]])


@lower(prims.view_of)
def view_of(x: Builder, a: Value) -> Value:
    return a


@lower(prims.cat)
def cat(x: Builder, tensors: Sequence[Value], dim: int) -> Value:
    return x.call(aten.cat.default, tensors, dim)


@lower(prims.iota)
def iota(
    x: Builder, length: int, *, start: int, step: int, dtype: torch.dtype, requires_grad: bool
) -> Value:
    return (x.iota(torch.int64, [length]) * step + start).to(dtype)


@lower(prims.sum)
def sum_(
    x: Builder, a: Value, dims: Sequence[int] | None, *, output_dtype: torch.dtype | None
) -> Value:
    return x.sum(a.to(output_dtype or a.dtype), dims) if dims != [] else a


@lower(prims.prod)
def prod(
    x: Builder, a: Value, dims: Sequence[int] | None, *, output_dtype: torch.dtype | None
) -> Value:
    return x.product(a.to(output_dtype or a.dtype), dims) if dims != [] else a


@lower(prims.var, static=("correction",))
def var(
    x: Builder,
    a: Value,
    dims: Sequence[int] | None,
    correction: Number,
    *,
    output_dtype: torch.dtype | None,
) -> Value:
    return x.call(aten.var.correction, a, dims, correction=correction, keepdim=False)
