"""Interrupts, and exceptions inside kernels, leave a usable device and no leak."""

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from tests.python_process import run_python

x = torch.arange(6.0).view(2, 3)

BAD_CALLS: dict[str, Callable[[Tensor], object]] = {
    "shapes that do not match": lambda x: x @ x,
    "shapes that do not broadcast": lambda x: x + torch.ones(5, device="neuron"),
    "an index out of range": lambda x: x[torch.tensor([7], device="neuron")],
    "an embedding index out of range": lambda x: torch.embedding(
        x, torch.tensor([9], device="neuron")
    ),
    "a singular matrix": lambda x: torch.linalg.inv(torch.zeros(3, 3, device="neuron")),
    "a matrix that is not positive": lambda x: torch.linalg.cholesky(-(x.t() @ x)),
    "a gather index out of range": lambda x: x.gather(1, torch.full_like(x, 5).long()),
    "a target out of range": lambda x: torch.nn.functional.nll_loss(
        x, torch.tensor([0, 9], device="neuron")
    ),
    "a wrong dtype": lambda x: torch.bitwise_not(x),
    "an output of another dtype": lambda x: torch.add(x, x, out=torch.empty_like(x).long()),
    "a bad list": lambda x: torch.cat([x, x[0]]),
    "an operand that overlaps itself": lambda x: x[:1].expand(2, 3).add_(1),
    "a convolution of the wrong width": lambda x: torch.conv2d(
        x.view(1, 1, 2, 3), torch.ones(1, 2, 1, 1, device="neuron")
    ),
    "probabilities below zero": lambda x: torch.multinomial(-x - 1, 1),
    "a mixed device": lambda x: x + torch.ones(2, 3),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_an_exception_inside_a_kernel_leaks_nothing(name: str) -> None:
    operand = x.to("neuron")
    gc.collect()
    before = torch.neuron.memory_allocated()
    for _ in range(20):
        with pytest.raises((RuntimeError, IndexError)):
            BAD_CALLS[name](operand)
    gc.collect()
    assert torch.neuron.memory_allocated() == before
    assert torch.equal(operand.cpu(), x)


def test_an_exception_in_a_hook_reaches_the_caller_of_backward() -> None:
    leaf = torch.ones(3, device="neuron", requires_grad=True)
    y = leaf.exp()

    def refuse(_gradient: Tensor) -> None:
        raise ValueError("from the hook")

    y.register_hook(refuse)
    with pytest.raises(ValueError, match="from the hook"):
        y.sum().backward()
    (leaf * 2).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0] * 3


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python does not raise KeyboardInterrupt where it was started with SIGINT ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("interruptible")
def test_interrupts_during_training_leave_device_and_memory_intact() -> None:
    weight = torch.eye(64, device="neuron").requires_grad_()
    (weight @ weight).sum().backward()
    weight.grad = None
    gc.collect()
    before = torch.neuron.memory_allocated()
    finished = threading.Event()

    def interrupt() -> None:
        while not finished.wait(0.02):
            os.kill(os.getpid(), signal.SIGINT)

    interrupts = 0
    sender = threading.Thread(target=interrupt)
    deadline = time.monotonic() + 30
    sender.start()
    try:
        while interrupts < 20 and time.monotonic() < deadline:
            try:
                while True:
                    (weight @ weight).tanh().sum().backward()
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        while True:
            try:
                finished.set()
                sender.join()
                break
            except KeyboardInterrupt:
                continue
    weight.grad = None
    gc.collect()
    assert interrupts == 20
    assert torch.neuron.memory_allocated() == before
    assert torch.equal(weight.detach().cpu(), torch.eye(64))


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_working_process_by_that_signal(sent: signal.Signals) -> None:
    done = run_python(
        f"""
import os, signal, threading, time, torch, torch_trainium
signal.signal({int(sent)}, signal.SIG_DFL)
x = torch.ones(128, 128, device="neuron", requires_grad=True)
threading.Timer(0.2, os.kill, (os.getpid(), {int(sent)})).start()
while True:
    (x @ x).tanh().sum().backward()
"""
    )
    assert done.returncode == -sent, done.stderr
    assert done.stderr == ""
