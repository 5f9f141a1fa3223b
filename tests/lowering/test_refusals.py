"""What programs do not take, as the CPU's kernels do not: kinds of numbers, dtypes, no elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from .compiled import on_device

Function = Callable[..., Any]

F32, F16, U8, I8, BOOL = torch.float32, torch.float16, torch.uint8, torch.int8, torch.bool
# Operators that take a number, with two tensors of ones.
WITH_NUMBER: dict[str, Function] = {
    "add": lambda a, b, n: torch.add(a, b, alpha=n),
    "sub": lambda a, b, n: torch.sub(a, b, alpha=n),
    "rsub": lambda a, b, n: torch.rsub(a, b, alpha=n),
    "add to a number": lambda a, b, n: torch.add(a, 1, alpha=n),
    "sub of a number": lambda a, b, n: torch.sub(a, n),
    "addcmul": lambda a, b, n: torch.addcmul(a, a, b, value=n),
    "clamp_min": lambda a, b, n: torch.clamp_min(a, n),
    "clamp": lambda a, b, n: torch.clamp(a, max=n),
    "where": lambda a, b, n: torch.where(a > 0, n, b),
    "mul": lambda a, b, n: torch.mul(a, n),
    "masked_fill": lambda a, b, n: torch.masked_fill(a, a > 0, n),
    "foreach_add": lambda a, b, n: torch._foreach_add([a], [b], alpha=n),
    "foreach_sub": lambda a, b, n: torch._foreach_sub([a], n),
    "foreach_sub of lists": lambda a, b, n: torch._foreach_sub([a], [b], alpha=n),
}
NUMBERS = [
    *((F32, 1e40), (F32, True), (F32, 2.5), (F16, 1e5), (F16, True), (U8, 300), (U8, -1)),
    *((U8, 1.5), (I8, 200), (I8, True), (BOOL, 2), (BOOL, True)),
]
EMPTY: dict[str, Function] = {
    "argmax": lambda a: a.argmax(),
    "argmax of a dimension": lambda a: a.argmax(0),
    "argmin": lambda a: a.argmin(1, keepdim=True),
    "amax": lambda a: a.amax(0),
    "amin of all": lambda a: a.amin(),
    "max": lambda a: a.max(0),
    "min of all": lambda a: a.min(),
    "aminmax": lambda a: torch.aminmax(a, dim=0, keepdim=True),
    "median": lambda a: a.median(0),
    "mode": lambda a: a.mode(0),
}


@pytest.mark.parametrize(("dtype", "number"), NUMBERS, ids=str)
@pytest.mark.parametrize("name", WITH_NUMBER)
def test_a_number_is_taken_or_refused_as_on_the_cpu(
    name: str, dtype: torch.dtype, number: Any
) -> None:
    ones = torch.ones(2, dtype=dtype)
    _agree(lambda a, b: WITH_NUMBER[name](a, b, number), ones, ones.clone())


def test_magnitudes_do_not_take_the_place_of_complex_numbers() -> None:
    numbers = torch.tensor([3 + 4j, -1j])
    _agree(lambda a: a.abs_(), numbers)
    _agree(lambda a: a.abs(), numbers)


@pytest.mark.parametrize("number", [True, 2, [True, 2]], ids=str)
def test_booleans_to_powers_are_of_the_numbers_kind(number: Any) -> None:
    values = torch.tensor([True, False])
    _agree(lambda a: torch._foreach_pow([a, a], number), values)
    if not isinstance(number, list):
        _agree(lambda a: a**number, values)


def test_a_later_number_is_refused_as_the_first() -> None:
    a = torch.ones(2, dtype=F16)

    def add(a: torch.Tensor) -> torch.Tensor:
        torch.add(a, a, alpha=2.0)
        return torch.add(a, a, alpha=1e5)

    with pytest.raises(RuntimeError, match="without overflow"):
        on_device(add, a)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("name", EMPTY)
def test_no_elements_have_no_extreme(name: str, shape: tuple[int, ...]) -> None:
    _agree(EMPTY[name], torch.empty(shape))


@pytest.mark.parametrize(
    "call",
    [
        lambda a: torch.heaviside(a, a.double()),
        lambda a: torch.sub(a, a > 0),
        lambda a: torch.rsub(a > 0, 1),
        lambda a: torch._foreach_sub([a > 0], [a > 0]),
        lambda a: torch.fmod(a.to(torch.complex64), 2),
        lambda a: torch.remainder(a, 1j),
    ],
)
def test_operands_of_such_dtypes_are_refused(call: Function) -> None:
    with pytest.raises(RuntimeError):
        call(torch.ones(3))
    with pytest.raises(RuntimeError):
        on_device(call, torch.ones(3))


def _agree(function: Function, *args: torch.Tensor) -> None:
    expected, given = (_outcome(run, args) for run in (function, _compiled(function)))
    if expected is NotImplementedError:
        return  # the CPU has no kernel to compare with
    if isinstance(expected, type) or isinstance(given, type):
        assert given is expected
    else:
        torch.testing.assert_close(given, expected, rtol=0, atol=0, equal_nan=True)


def _compiled(function: Function) -> Function:
    return lambda *args: on_device(function, *args)


def _outcome(function: Function, args: tuple[torch.Tensor, ...]) -> Any:
    """A result, or the kind of the exception."""
    try:
        return function(*args)
    except (RuntimeError, IndexError, TypeError) as refusal:
        return type(refusal)
