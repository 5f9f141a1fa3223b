"""Programs with rewrites and without, on CPU memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from torch_trainium.engines.engine import Buffer, Signature
from torch_trainium.engines.xla_cpu import XlaCpuEngine, XlaCpuProgram
from torch_trainium.lowering import dispatch, dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

# Writes what a program computes of its arguments.
Body = Callable[..., Any]


@cache
def engine() -> XlaCpuEngine:
    return XlaCpuEngine()


def operator(overload: Any, *others: Any) -> Body:
    """A program of one operator, whose first arguments are the program's."""

    def body(x: Builder, *values: Value) -> Any:
        arguments = dispatch.bind(overload, (*values, *others), {})
        return dispatch.lower_call(x, overload, tuple(arguments.values()), {})

    return body


def compiled(body: Body, inputs: Sequence[torch.Tensor], with_rewrites: bool) -> XlaCpuProgram:
    """The program of contiguous tensors like these."""
    with Builder() as x:
        results = body(x, *(x.argument(t.dtype, t.shape) for t in inputs))
        outputs = [r for r in (results if isinstance(results, tuple) else (results,)) if r]
        module = x.finish(outputs)
    signature = Signature(tuple(map(_buffer, inputs)), (), tuple(map(_buffer, outputs)))
    engine().with_rewrites = with_rewrites
    return engine().compile(module, signature)


def run(program: XlaCpuProgram, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What a program writes for these."""
    results = [
        torch.empty(buffer.shape, dtype=_DTYPES[buffer.element])
        for buffer in program.signature.outputs
    ]
    program.run([t.data_ptr() for t in inputs], [], [t.data_ptr() for t in results])
    return results


def assert_same(
    body: Body, *inputs: torch.Tensor, kernels: Sequence[str], exact: bool = False
) -> None:
    """The program calls these kernels and gives what it gives without them."""
    plain, rewritten = (compiled(body, inputs, rewrites) for rewrites in (False, True))
    assert not plain.kernels()
    assert rewritten.kernels() == Counter(kernels)
    bounds = {"rtol": 0, "atol": 0} if exact else {}
    torch.testing.assert_close(run(rewritten, inputs), run(plain, inputs), equal_nan=True, **bounds)


_DTYPES = {element: dtype for dtype, element in dtypes.ELEMENT_TYPES.items()}


def _buffer(array: torch.Tensor | Value) -> Buffer:
    return Buffer(dtypes.element_type(array.dtype), tuple(array.shape))
