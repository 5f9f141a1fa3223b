"""Operators that run out of device memory raise, and the work goes on."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

MIB = 1 << 20
LIMIT_BYTES = 64 * MIB


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    torch.neuron.empty_cache()
    total = torch.neuron.mem_get_info()[1]
    used = torch.neuron.memory_reserved()
    torch.neuron.set_per_process_memory_fraction((used + LIMIT_BYTES) / total)
    yield
    torch.neuron.set_per_process_memory_fraction(1.0)


def large() -> Tensor:
    """40 MiB: a second one does not fit."""
    return torch.ones(10 * MIB, device="neuron")


def fails(call: Callable[[], object]) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        call()


OPERATORS: dict[str, Callable[[Tensor], object]] = {
    "a hot kernel": lambda x: x + x,
    "a boxed kernel": lambda x: torch.erfinv(x),
    "a kernel with several results": lambda x: x.sort(),
    "a random kernel": lambda x: torch.rand_like(x),
    "a copy": lambda x: x.clone(),
    "a list of tensors": lambda x: torch._foreach_mul([x[:8], x], 2.0),
    "a factory": lambda x: torch.zeros_like(x),
    "an output resized": lambda x: torch.add(x, x, out=torch.empty(0, device="neuron")),
    "a growing storage": lambda x: torch.ones(4, device="neuron").resize_(x.numel()),
    "a temporary of the kernel": lambda x: x.view(2, -1).t().cumsum(0).median(),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_out_of_memory_leaves_everything_as_it_was(name: str) -> None:
    x = large()
    before = torch.neuron.memory_allocated()
    for _ in range(20):
        fails(lambda: OPERATORS[name](x))
    assert torch.neuron.memory_allocated() == before
    assert x.sum().item() == x.numel()


def test_a_thousand_out_of_memory_errors_in_training_change_nothing() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    model.to("neuron")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(16, 8).to("neuron")
    ballast = large()
    before, failures, losses = 0, 0, []
    for step in range(1000):
        optimizer.zero_grad()
        loss = model(data).square().mean()
        try:
            (loss * ballast).sum().backward()
        except torch.OutOfMemoryError:
            failures += 1
        loss.backward()
        optimizer.step()
        if step == 0:
            before = torch.neuron.memory_allocated()
        if step % 250 == 0:
            losses.append(loss.item())
    assert failures == 1000
    assert torch.neuron.memory_allocated() == before
    assert losses == sorted(losses, reverse=True)


def test_out_of_memory_inside_backward_is_raised_to_the_caller() -> None:
    x = torch.ones(4 * MIB, device="neuron", requires_grad=True)
    y = x.exp()
    held = torch.ones(7 * MIB, device="neuron")
    before = torch.neuron.memory_allocated()
    for _ in range(50):
        fails(lambda: y.backward(torch.ones((), device="neuron").expand_as(y), retain_graph=True))
    assert torch.neuron.memory_allocated() == before
    del held
    y.backward(torch.ones((), device="neuron").expand_as(y))
    assert x.grad is not None
