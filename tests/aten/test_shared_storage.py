"""Operands that share a storage, one of them written."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

WRITES: dict[str, Callable[[Tensor], object]] = {
    "out= beside the input": lambda b: torch.cumsum(b[0], 0, out=b[1]),
    "in place beside an operand": lambda b: b[1].lerp_(b[0], 0.5),
    "in place before an operand": lambda b: b[0].addcmul_(b[1], b[1]),
    "out= after a list": lambda b: torch.cat([b[0, :2], b[0, 2:]], out=b[1]),
    "two outputs": lambda b: torch.aminmax(b.clone(), dim=0, out=(b[0], b[1])),
    "foreach": lambda b: torch._foreach_add_(list(b), 1.0),
    "foreach of pairs": lambda b: torch._foreach_mul_([b[0]], [b[1]]),
    "foreach copy": lambda b: torch._foreach_copy_([b[0]], [b[1]]),
    "copy": lambda b: b[0].copy_(b[1]),
    "fill": lambda b: b[1].fill_(3.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_write_reaches_the_storage(name: str) -> None:
    results = []
    for device in ("cpu", "neuron"):
        for _ in range(3):  # aliases are recycled: a stale one shows on a later call
            base = torch.arange(8.0).reshape(2, 4).to(device)
            address = base.data_ptr()
            WRITES[name](base)
            assert base.data_ptr() == address
        results.append(base.cpu())
    assert torch.equal(results[1], results[0])


def test_optimizers_step_parameters_of_one_flat_buffer() -> None:
    for make in (
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
        lambda p: torch.optim.Adam(p, 0.1, fused=True),
    ):
        results = []
        for device in ("cpu", "neuron"):
            flat = torch.linspace(-1, 1, 12).to(device)
            gradients = torch.linspace(1, 2, 12).to(device)
            parameters = [torch.nn.Parameter(part) for part in flat.view(3, 4)]
            for parameter, gradient in zip(parameters, gradients.view(3, 4), strict=True):
                parameter.grad = gradient
            optimizer = make(parameters)
            torch.nn.utils.clip_grad_norm_(parameters, 0.5)
            for _ in range(3):
                optimizer.step()
            results.append(flat.cpu())
        torch.testing.assert_close(results[1], results[0])


def test_resized_output_moves_every_view_of_its_storage() -> None:
    out = torch.empty(0, device="neuron")
    torch.add(torch.ones(4, device="neuron"), 1, out=out)
    assert torch.equal(out.cpu(), torch.full((4,), 2.0))
