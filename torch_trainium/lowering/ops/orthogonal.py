"""Orthogonal factors by Householder reflections, numbered and signed as LAPACK does."""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.matrices import adjoint_of, flat_batch, position, triangle
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


def _reflector(x: Builder, factors: Value, k: Value) -> Value:
    """The vector of reflection k: 1 in row k, below it what the column holds there."""
    batch, m, _ = factors.shape
    rows = position(x, [1, m, 1], 1)
    zero = x.constant(0, torch.int32)
    column = x.dynamic_slice(factors, [zero, zero, k], [batch, m, 1])
    below = x.select(rows > k, column, x.constant(0, factors.dtype))
    return x.select(rows.eq(k), x.constant(1, factors.dtype), below)


def reflectors(x: Builder, a: Value) -> tuple[Value, Value]:
    batch, m, n = a.shape
    steps = min(m, n)
    rows, columns = position(x, [1, m, 1], 1), position(x, [1, 1, n], 2)
    nothing = x.constant(0, a.dtype)

    def step(k: Value, factors: Value, tau: Value) -> list[Value]:
        zero = x.constant(0, torch.int32)
        column = x.dynamic_slice(factors, [zero, zero, k], [batch, m, 1])
        alpha = x.sum(x.select(rows.eq(k), column, nothing), [1], keepdim=True)
        size = x.abs(x.select(rows > k, column, nothing))
        rest = x.sum(size * size, [1], keepdim=True)
        length = x.sqrt(rest + x.abs(alpha) * x.abs(alpha))
        beta = x.select(x.real(alpha) < 0, length, -length).to(a.dtype)
        # A column that is already reduced is left as it is.
        done = rest.eq(0)
        if a.dtype.is_complex:
            done = done & x.imag(alpha).eq(0)
        one = x.constant(1, a.dtype)
        weight = x.select(done, nothing, (beta - alpha) / x.select(done, one, beta))
        below = column / x.select(done, one, alpha - beta)
        reflector = x.select(rows.eq(k), one, x.select(rows > k, below, nothing))
        shadow = x.dot(adjoint_of(x, reflector), factors)
        others = factors - x.conj(weight) * reflector * shadow
        pivot = x.select(done, alpha, beta)
        own = x.select(rows.eq(k), pivot, x.select(rows > k, below, column))
        own = x.select(done, column, own)
        factors = x.select(columns.eq(k), own, x.select(columns > k, others, factors))
        tau = x.dynamic_update_slice(tau, x.reshape(weight, [batch, 1]), [zero, k])
        return [k + 1, factors, tau]

    start = [x.constant(0, torch.int32), a, x.constant(0, a.dtype, [batch, steps])]
    _, factors, tau = x.while_(start, lambda k, *state: k < steps, step)
    return factors, tau


def reflected(x: Builder, factors: Value, tau: Value, c: Value, *, adjoint: bool) -> Value:
    """The product of all reflections, or its adjoint, with the matrices `c`."""
    batch, steps = tau.shape

    def step(number: Value, c: Value) -> list[Value]:
        zero = x.constant(0, torch.int32)
        k = number if adjoint else (steps - 1) - number
        weight = x.reshape(x.dynamic_slice(tau, [zero, k], [batch, 1]), [batch, 1, 1])
        reflector = _reflector(x, factors, k)
        shadow = x.dot(adjoint_of(x, reflector), c)
        return [number + 1, c - (x.conj(weight) if adjoint else weight) * reflector * shadow]

    start = [x.constant(0, torch.int32), c]
    return x.while_(start, lambda number, c: number < steps, step)[1]


def _columns_of_product(x: Builder, factors: Value, tau: Value, columns: int) -> Value:
    """The first columns of the product of all reflections."""
    shape = [factors.shape[0], factors.shape[1], columns]
    unit = position(x, shape, 1).eq(position(x, shape, 2)).to(factors.dtype)
    return reflected(x, factors, tau, unit, adjoint=False) if tau.size else unit


@lower(aten.geqrf)
def geqrf(x: Builder, a: Value) -> tuple[Value, Value]:
    steps = min(a.shape[-2:])
    if not a.size:
        return a, x.constant(0, a.dtype, [*a.shape[:-2], steps])
    factors, tau = reflectors(x, flat_batch(x, a))
    return x.reshape(factors, a.shape), x.reshape(tau, [*a.shape[:-2], steps])


@lower(aten.linalg_householder_product)
def householder_product(x: Builder, a: Value, tau: Value) -> Value:
    if not a.size:
        return a
    product = _columns_of_product(x, flat_batch(x, a), flat_batch(x, tau, 1), a.shape[-1])
    return x.reshape(product, a.shape)


def orthogonal_factors(x: Builder, a: Value, columns: int) -> tuple[Value, Value]:
    """The first columns of the orthogonal factor of a batch, and the triangular factor."""
    factors, tau = geqrf(x, a)
    product = _columns_of_product(x, factors, tau, columns)
    return product, triangle(x, factors, upper=True)


@lower(aten.linalg_qr)
def qr(x: Builder, a: Value, mode: str) -> tuple[Value, Value]:
    *batch, m, n = a.shape
    rank = m if mode == "complete" else min(m, n)
    if mode == "r":
        factors, _ = geqrf(x, a)
        upper = triangle(x, x.slice_in_dim(factors, -2, 0, rank), upper=True)
        return x.constant(0, a.dtype, [0]), upper
    product, upper = orthogonal_factors(x, flat_batch(x, a), rank)
    upper = x.slice_in_dim(upper, 1, 0, rank)
    return x.reshape(product, [*batch, m, rank]), x.reshape(upper, [*batch, rank, n])


@lower(aten.ormqr)
def ormqr(x: Builder, a: Value, tau: Value, c: Value, left: bool, transpose: bool) -> Value:
    if not c.size or not tau.size:
        return c
    factors, weights = flat_batch(x, a), flat_batch(x, tau, 1)
    if left:
        product = reflected(x, factors, weights, flat_batch(x, c), adjoint=transpose)
    else:
        turned = flat_batch(x, adjoint_of(x, c))
        product = adjoint_of(x, reflected(x, factors, weights, turned, adjoint=not transpose))
    return x.reshape(product, c.shape)
