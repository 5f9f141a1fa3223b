"""What `out=` may be: operators as programs refuse and resize what their CPU kernels do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from .compiled import on_device

A = torch.tensor([[3.0, -1.5, 2.25], [0.5, 4.0, -2.0], [1.0, 0.0, 5.5]])
INDEX = torch.tensor([[0, 2, 1]])
Function = Callable[..., Any]

# Each takes the matrix, the index and `out`.
ONE_RESULT: dict[str, Function] = {
    "mm": lambda a, i, out: torch.mm(a, a, out=out),
    "addmm": lambda a, i, out: torch.addmm(a, a, a, out=out),
    "gather": lambda a, i, out: torch.gather(a, 0, i, out=out),
    "where": lambda a, i, out: torch.where(a > 0, a, -a, out=out),
    "index_select": lambda a, i, out: torch.index_select(a, 0, i[0], out=out),
    "norm": lambda a, i, out: torch.norm(a, 2, 0, out=out),
    "argmax": lambda a, i, out: torch.argmax(a, 0, out=out),
    "sum": lambda a, i, out: torch.sum(a, 0, out=out),
    "prod": lambda a, i, out: torch.prod(a, 0, out=out),
    "cumsum": lambda a, i, out: torch.cumsum(a, 0, out=out),
    "cat": lambda a, i, out: torch.cat([a, a], out=out),
    "add": lambda a, i, out: torch.add(a, 1, out=out),
    "add of integers": lambda a, i, out: torch.add(i, 1, out=out),
    "mul": lambda a, i, out: torch.mul(a, a, out=out),
    "eq": lambda a, i, out: torch.eq(a, 1, out=out),
    "exp": lambda a, i, out: torch.exp(a, out=out),
    "mean": lambda a, i, out: torch.mean(a, 0, out=out),
    "softmax": lambda a, i, out: torch.softmax(a, 0, out=out),
    "tril": lambda a, i, out: torch.tril(a, out=out),
    "stack": lambda a, i, out: torch.stack([a, a], out=out),
    "take": lambda a, i, out: torch.take(a, i, out=out),
    "clamp": lambda a, i, out: torch.clamp(a, 0, 1, out=out),
    "sort": lambda a, i, out: torch.sort(a, 0, out=(out, i.new_empty(0)))[0],
    "median": lambda a, i, out: torch.median(a, 0, out=(out, i.new_empty(0)))[0],
    "cummax": lambda a, i, out: torch.cummax(a, 0, out=(out, i.new_empty(0)))[0],
    "neg": lambda a, i, out: torch.neg(a, out=out),
    "cholesky": lambda a, i, out: torch.linalg.cholesky(a @ a.mT, out=out),
}
# Into booleans the CPU has no kernels of some.
DTYPES = [torch.float32, torch.float64, torch.float16, torch.int32]
SHAPES = [(0,), (9,), (3, 3), (4, 5)]


def outcome(call: Callable[[], torch.Tensor]) -> tuple[Any, ...]:
    """A result with its layout and the warnings on the way, or the kind of the exception."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except (RuntimeError, TypeError) as refusal:
            return (type(refusal),)
    is_warned = any("resized" in str(warning.message) for warning in caught)
    return result.dtype, result.shape, result.stride(), is_warned


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ONE_RESULT)
def test_a_dtype_is_taken_or_refused_as_on_the_cpu(name: str, dtype: torch.dtype) -> None:
    _agree(ONE_RESULT[name], torch.empty(0, dtype=dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ONE_RESULT)
def test_a_shape_is_kept_or_resized_as_on_the_cpu(name: str, shape: tuple[int, ...]) -> None:
    dtype = {"argmax": torch.int64, "eq": torch.bool, "add of integers": torch.int64}.get(name)
    _agree(ONE_RESULT[name], torch.empty(shape, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_sums_are_taken_in_the_dtype_of_what_they_are_written_to(
    name: str, dtype: torch.dtype
) -> None:
    def call(a: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(torch, name)(a, 0, out=a.new_empty(0, dtype=dtype))
        return result

    assert torch.equal(on_device(call, A), call(A))


def test_numbers_in_a_row_fill_a_tensor_that_has_room() -> None:
    def call(like: torch.Tensor) -> torch.Tensor:
        return torch.arange(12, out=like.new_empty(4, 3).t())

    assert torch.equal(on_device(call, A), call(A))
    assert on_device(call, A).stride() == (1, 3)


def test_factors_written_to_an_empty_tensor_lie_by_columns() -> None:
    def strides(a: torch.Tensor) -> list[tuple[int, ...]]:
        empty = {name: a.new_empty(0) for name in ("result", "LU")}
        empty |= {name: a.new_empty(0, dtype=torch.int32) for name in ("pivots", "info")}
        results = torch.ops.aten._linalg_solve_ex.result(a, a, **empty)
        return [result.stride() for result in results]

    assert on_device(strides, A) == strides(A)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.int().add_(1.5),
        lambda a: a.int().mul_(1.5),
        lambda a: a[0].add_(a),
        lambda a: a.int().div_(2),
        lambda a: a[0].mul_(a),
    ],
)
def test_what_cannot_be_written_in_place_is_refused(call: Function) -> None:
    with pytest.raises(RuntimeError):
        call(A)
    with pytest.raises(RuntimeError):
        on_device(call, A)


def _agree(function: Function, out: torch.Tensor) -> None:
    expected = outcome(lambda: function(A, INDEX, out.clone()))
    assert outcome(lambda: on_device(lambda *given: function(*given), A, INDEX, out)) == expected
