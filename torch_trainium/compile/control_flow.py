"""Control flow in a program: branches are both computed, loops of known length are loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from torch_trainium.errors import LoweringError
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

if TYPE_CHECKING:
    from torch_trainium.compile.interpret import Interpreter


def cond(
    run: Interpreter,
    predicate: Any,
    on_true: GraphModule,
    on_false: GraphModule,
    operands: Sequence[Any] = (),
) -> list[Any]:
    """Both branches, of whose results the predicate selects one.

    No documentation says that the chips' compiler takes a branch. An error of the branch that is
    not taken is none.
    """
    if not isinstance(predicate, Value):
        return run.body(on_true if predicate else on_false, operands)
    x = run.x
    taken = x.reshape(predicate, [])
    with _without_draws(x):
        with x.checking_where(taken):
            left = run.body(on_true, operands)
        with x.checking_where(x.not_(taken)):
            right = run.body(on_false, operands)
    return [_selected(x, taken, a, b) for a, b in zip(left, right, strict=True)]


def scan(
    run: Interpreter,
    combine: GraphModule,
    init: Sequence[Value],
    xs: Sequence[Value],
    additional: Sequence[Any],
) -> list[Any]:
    """A loop over the first dimension of `xs` with a state; its last value, then all results."""
    return _loop(run, combine, list(init), xs, additional)


def map_over(
    run: Interpreter, function: GraphModule, xs: Sequence[Value], additional: Sequence[Any]
) -> list[Any]:
    """A function of each row of `xs`: its results, stacked."""
    return _loop(run, function, [], xs, additional)


def invoke(run: Interpreter, body: GraphModule, identifier: str, *operands: Any) -> list[Any]:
    """A region that is compiled once in PyTorch's Inductor; here a part of the program."""
    return run.body(body, operands)


def _loop(
    run: Interpreter,
    body: GraphModule,
    state: list[Value],
    xs: Sequence[Value],
    additional: Sequence[Any],
) -> list[Any]:
    """The first step, which shows what results look like, then a loop over the others."""
    x = run.x
    length = xs[0].shape[0]
    if not length:
        raise LoweringError("a loop over no elements has no result to show its shape")

    def compute(index: Value, carried: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        given = run.body(body, [*carried, *(_row(x, a, index) for a in xs), *additional])
        if not all(isinstance(value, Value) for value in given):
            raise LoweringError("the body of a loop gives something that is no tensor")
        return given[: len(state)], given[len(state) :]

    def step(index: Value, failed: Value, *values: Value) -> list[Value]:
        carried, stacked = list(values[: len(state)]), list(values[len(state) :])
        (carried, rows), error = x.region(lambda: compute(index, carried))
        stacked = [_with_row(x, *pair, index) for pair in zip(stacked, rows, strict=True)]
        return [index + 1, x.select(failed.ne(0), failed, error), *carried, *stacked]

    with _without_draws(x):
        carried, rows = compute(x.constant(0, torch.int32), state)
        stacked = [x.broadcast(x.unsqueeze(row, 0), [length, *row.shape]) for row in rows]
        if length == 1:
            return [*carried, *stacked]
        start = [x.constant(1, torch.int32), x.constant(0, torch.int32), *carried, *stacked]
        with run.repeated(length - 1):
            _, failed, *found = x.while_(start, lambda index, *_: index < length, step)
    x.fail_with(failed)
    return found


def _row(x: Builder, a: Value, index: Value) -> Value:
    starts = [index, *[x.constant(0, torch.int32)] * (a.rank - 1)]
    return x.reshape(x.dynamic_slice(a, starts, [1, *a.shape[1:]]), a.shape[1:])


def _with_row(x: Builder, a: Value, row: Value, index: Value) -> Value:
    starts = [index, *[x.constant(0, torch.int32)] * row.rank]
    return x.dynamic_update_slice(a, x.unsqueeze(row, 0), starts)


def _selected(x: Builder, taken: Value, a: Any, b: Any) -> Any:
    if isinstance(a, Value) and isinstance(b, Value):
        return x.select(taken, a, b)
    if a is None and b is None:
        return None
    raise LoweringError("a branch gives something that is no tensor")


@contextmanager
def _without_draws(x: Builder) -> Iterator[None]:
    """Refuse random numbers: how many eager mode draws depends on what runs."""
    before = x.positions
    yield
    if x.positions != before:
        raise LoweringError("random numbers inside of control flow")
