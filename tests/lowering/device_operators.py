"""Command line: operators that only the device has, as programs and on the host engine, compared.

PyTorch's operator database runs on the CPU in tests.lowering.conformance, where factories, random
numbers, and what PyTorch leaves to a device (convolutions, attention, recurrent cells) are other
overloads than here. Both modes draw the same random numbers, so that these are compared too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from torch_trainium import eager
from torch_trainium.eager import calls
from torch_trainium.eager.engine_rewrites import engine_rewrites_are
from torch_trainium.errors import FallbackError
from torch_trainium.lowering import proofs
from torch_trainium.lowering.proofs import Proofs
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

from .programs import noted_programs, record_program

aten = torch.ops.aten

CHECK = "device"
HALVES = (torch.bfloat16, torch.float16)
FLOATS = (torch.float32, *HALVES)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
ALL = (*FLOATS, *INTEGERS, torch.bool)

Case = Callable[[torch.dtype], Any]


def made(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Values that every dtype holds, in (0, 1) where it has fractions."""
    numbers = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float32).reshape(shape)
    if dtype.is_floating_point:
        numbers = numbers / (numbers.numel() + 1)
    return numbers.to(dtype).to("neuron")


def empty(dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(300, dtype=dtype, device="neuron")


def gradients(call: Callable[..., Any], *operands: torch.Tensor) -> list[torch.Tensor]:
    operands = tuple(operand.requires_grad_() for operand in operands)
    results = call(*operands)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    torch.autograd.backward(results, [torch.ones_like(result) for result in results])
    return [*results, *(operand.grad for operand in operands)]


def cell(kind: type[nn.Module], dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    module = kind(3, 4).to(dtype).to("neuron")
    results = module(made(dtype, 2, 3))
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    torch.autograd.backward(results, [torch.ones_like(result) for result in results])
    return [*results, *(parameter.grad for parameter in module.parameters())]


def steps(kind: type[torch.optim.Optimizer], dtype: torch.dtype, **options: Any) -> Any:
    parameters = [made(dtype, 4).requires_grad_(), made(dtype, 2, 3).requires_grad_()]
    optimizer = kind(parameters, lr=0.1, **options)
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    return parameters


CASES: dict[str, tuple[tuple[torch.dtype, ...], Case]] = {
    "zero_": (ALL, lambda d: empty(d).zero_()),
    "fill_": (ALL, lambda d: empty(d).fill_(1)),
    "fill_ with a tensor": (ALL, lambda d: empty(d).fill_(made(d, 1)[0])),
    "arange": ((*FLOATS, *INTEGERS), lambda d: torch.arange(2, 20, 3, dtype=d, device="neuron")),
    "linspace": (FLOATS, lambda d: torch.linspace(0, 1, 7, dtype=d, device="neuron")),
    "logspace": (FLOATS, lambda d: torch.logspace(0, 1, 7, dtype=d, device="neuron")),
    "eye": (ALL, lambda d: torch.eye(3, 4, dtype=d, device="neuron")),
    "tril_indices": (INTEGERS[:2], lambda d: torch.tril_indices(3, 4, dtype=d, device="neuron")),
    "triu_indices": (INTEGERS[:2], lambda d: torch.triu_indices(3, 4, dtype=d, device="neuron")),
    "normal_": (FLOATS, lambda d: empty(d).normal_(1, 2)),
    "uniform_": (FLOATS, lambda d: empty(d).uniform_(1, 2)),
    "log_normal_": (FLOATS, lambda d: empty(d).log_normal_()),
    "exponential_": (FLOATS, lambda d: empty(d).exponential_()),
    "cauchy_": (FLOATS, lambda d: empty(d).cauchy_()),
    "geometric_": ((*FLOATS, *INTEGERS), lambda d: empty(d).geometric_(0.4)),
    "bernoulli_": (ALL, lambda d: empty(d).bernoulli_(0.4)),
    "bernoulli_ with a tensor": (ALL, lambda d: empty(d).bernoulli_(made(FLOATS[0], 300))),
    "bernoulli": (FLOATS, lambda d: torch.bernoulli(made(d, 300))),
    "random_": ((*FLOATS, *INTEGERS), lambda d: empty(d).random_()),
    "random_ in a range": ((*FLOATS, *INTEGERS), lambda d: empty(d).random_(3, 90)),
    "random_ below": ((*FLOATS, *INTEGERS), lambda d: empty(d).random_(90)),
    "randperm": ((*FLOATS, *INTEGERS), lambda d: torch.randperm(50, dtype=d, device="neuron")),
    "normal of tensors": (FLOATS, lambda d: torch.normal(made(d, 99), made(d, 99))),
    "normal of a mean": (FLOATS, lambda d: torch.normal(made(d, 99), 2.0)),
    "normal of a deviation": (FLOATS, lambda d: torch.normal(2.0, made(d, 99))),
    "multinomial": (FLOATS, lambda d: torch.multinomial(made(d, 4, 9), 3)),
    "multinomial, replaced": (FLOATS, lambda d: torch.multinomial(made(d, 4, 9), 30, True)),
    "poisson": (FLOATS, lambda d: torch.poisson(made(d, 99) * 4)),
    "binomial": (FLOATS, lambda d: torch.binomial(torch.full_like(made(d, 99), 9), made(d, 99))),
    "gamma": (FLOATS, lambda d: torch._standard_gamma(made(d, 99))),
    "dirichlet": (FLOATS, lambda d: torch._sample_dirichlet(made(d, 9, 9))),
    "dropout": (FLOATS, lambda d: F.dropout(made(d, 300))),
    "rrelu": (FLOATS, lambda d: F.rrelu(made(d, 300) - 0.5, training=True)),
    "convolution": (
        FLOATS,
        lambda d: gradients(F.conv2d, made(d, 2, 3, 8, 8), made(d, 4, 3, 3, 3), made(d, 4)),
    ),
    "transposed convolution": (
        FLOATS,
        lambda d: gradients(
            lambda a, b: F.conv_transpose2d(a, b, stride=2),
            made(d, 2, 3, 5, 5),
            made(d, 3, 4, 3, 3),
        ),
    ),
    "attention": (
        FLOATS,
        lambda d: gradients(
            F.scaled_dot_product_attention, *(made(d, 2, 2, 5, 8) for _ in range(3))
        ),
    ),
    "causal attention": (
        FLOATS,
        lambda d: gradients(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            *(made(d, 2, 2, 5, 8) for _ in range(3)),
        ),
    ),
    "scatter with a reduction": (
        FLOATS,
        lambda d: [
            made(d, 9).scatter(0, made(torch.int64, 3), made(d, 3), reduce=how)
            for how in ("add", "multiply")
        ],
    ),
    "scatter of a number with a reduction": (
        FLOATS,
        lambda d: [
            made(d, 9).scatter(0, made(torch.int64, 3), 1.5, reduce=how)
            for how in ("add", "multiply")
        ],
    ),
    # What the gradient of indexing is but under a dispatch mode.
    "writing through an index": (
        ALL,
        lambda d: [
            torch._index_put_impl_(
                made(d, 9), (made(torch.int64, 3),), made(d, 3), accumulate, True
            )
            for accumulate in (False, True)
        ],
    ),
    "adding a tensor to a list": (
        ALL,
        lambda d: aten._foreach_add.Tensor([made(d, 3), made(d, 4)], made(d, 1)[0]),
    ),
    "eigenvalues alone": (FLOATS[:1], lambda d: torch.linalg.eigvals(made(d, 3, 3).triu())),
    "gamma's gradient": (
        FLOATS,
        lambda d: torch._standard_gamma_grad(made(d, 99), made(d, 99).flip(0)),
    ),
    "Dirichlet's gradient": (
        FLOATS,
        lambda d: torch._dirichlet_grad(made(d, 99), made(d, 99).flip(0), made(d, 99) + 1),
    ),
    "LSTM cell": (FLOATS, lambda d: cell(nn.LSTMCell, d)),
    "GRU cell": (FLOATS, lambda d: cell(nn.GRUCell, d)),
    "Adam": (FLOATS, lambda d: steps(torch.optim.Adam, d, fused=True, amsgrad=True)),
    "AdamW": (FLOATS, lambda d: steps(torch.optim.AdamW, d, fused=True)),
    "SGD": (FLOATS, lambda d: steps(torch.optim.SGD, d, fused=True, momentum=0.9)),
    "Adagrad": (FLOATS, lambda d: steps(torch.optim.Adagrad, d, fused=True)),
    "Adam with its steps on the device": (
        FLOATS,
        lambda d: steps(torch.optim.Adam, d, foreach=True, capturable=True),
    ),
    "weight norm": (
        FLOATS,
        lambda d: gradients(lambda v, g: torch._weight_norm(v, g, 0), made(d, 3, 4), made(d, 3, 1)),
    ),
}


def run(case: Case, dtype: torch.dtype) -> tuple[str, Proofs]:
    """What is wrong, or "", and what the programs consisted of."""
    try:
        expected = on_the_host(case, dtype)
    except (RuntimeError, NotImplementedError):
        return "", Proofs()  # PyTorch has no such kernel
    with (
        eager.eager_mode_is("compiled"),
        native_means_expressible(),
        engine_rewrites_are(False),
        torch.neuron.fallback_is("error"),
        noted_programs() as programs,
    ):
        calls.release_programs()  # so that all programs of the case are made here
        torch.manual_seed(1)
        try:
            actual = to_cpu(case(dtype))
        except (FallbackError, RuntimeError) as error:
            return str(error), Proofs()
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
    except AssertionError as difference:
        if dtype not in HALVES or not as_accurate(actual, expected, on_the_host(case, FLOATS[0])):
            return " ".join(str(difference).split()), Proofs()
    found = Proofs()
    for call in programs:
        record_program(found, call, CHECK)
    return "", found


def on_the_host(case: Case, dtype: torch.dtype) -> Any:
    """What PyTorch's CPU kernels give, with the device's random numbers."""
    with eager.eager_mode_is("host"), torch.neuron.fallback_is("allow"):
        torch.manual_seed(1)
        return to_cpu(case(dtype))


def to_cpu(results: Any) -> list[torch.Tensor]:
    return [t.detach().cpu() for t in tree_leaves(results) if isinstance(t, torch.Tensor)]


def as_accurate(
    actual: list[torch.Tensor], expected: list[torch.Tensor], exact: list[torch.Tensor]
) -> bool:
    """Whether results in 16 bits are about as near to those in 32 as the CPU's are."""
    return all(
        (a.float() - x).abs().max() <= 2 * (e.float() - x).abs().max() + 1e-6
        for a, e, x in zip(actual, expected, exact, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lowering.device_operators")
    parser.add_argument("names", nargs="*", help="of the cases; all if none")
    parser.add_argument("--write-table", action="store_true", help="add to lowering/data")
    options = parser.parse_args()
    found = Proofs()
    failures = 0
    for name, (dtypes, case) in CASES.items():
        for dtype in dtypes if not options.names or name in options.names else ():
            problem, noted = run(case, dtype)
            found.merge(noted)
            if problem:
                failures += 1
                print(f"{name} {str(dtype).removeprefix('torch.')}: {problem[:300]}", flush=True)
    print(f"{failures} cases fail; {len(list(found))} overloads have programs")
    if options.write_table:
        known = proofs.read()
        known.supplement(found)
        proofs.write(known)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
