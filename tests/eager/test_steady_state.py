"""Training compiles in its first epoch and evaluation, and never again."""

import pytest
import torch
from torch import nn

from tests.examples.example_process import EXAMPLES
from tests.python_process import output_of
from torch_trainium import eager


def epoch(net: nn.Module, optimizer: torch.optim.Optimizer, data: list[torch.Tensor]) -> None:
    net.train()
    for batch in data:
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()


@torch.no_grad()
def evaluate(net: nn.Module, data: list[torch.Tensor]) -> float:
    net.eval()
    return sum(net(batch).abs().mean().item() for batch in data)


def test_adam_with_a_schedule_dropout_and_evaluation():
    with eager.eager_mode_is("compiled"), eager.fallback_is("error"):
        net = nn.Sequential(
            nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 3), nn.Dropout(0.1)
        ).to("neuron")
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=1e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
        data = [torch.randn(7, 12, device="neuron") for _ in range(3)]
        epoch(net, optimizer, data)
        schedule.step()
        evaluate(net, data)
        first = eager.program_statistics()
        for _ in range(4):
            epoch(net, optimizer, data)
            schedule.step()
            evaluate(net, data)
        after = eager.program_statistics()
    assert after.misses == first.misses
    assert after.hits > first.hits


def test_new_numbers_and_places_take_the_same_programs():
    with eager.eager_mode_is("compiled"), eager.fallback_is("error"):
        a = torch.arange(64.0, device="neuron").reshape(8, 8)
        b = torch.zeros(8, 8, device="neuron")

        def work(step: int) -> None:
            torch.add(a, b, alpha=0.1 * step)
            b.add_(a, alpha=step).mul_(0.5**step).clamp_(-step, step)
            torch.where(a > step, a, float(step))
            torch.addcmul(a, a, b, value=step)
            a[16 // 8 * (step % 2)].exp()  # rows that begin at multiples of 64 bytes
            torch.rand(8, device="neuron")

        work(1)
        work(2)
        misses = eager.program_statistics().misses
        for step in range(3, 9):
            work(step)
        assert eager.program_statistics().misses == misses


EXAMPLE = """
import sys
import {module}
from torch_trainium import eager
for run in range(2):
    sys.argv = ["example", "--device", "neuron", "--out", {out!r}, *{options!r}]
    {module}.main()
    print("misses", eager.program_statistics().misses)
"""


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("train_digits", ["--epochs", "1", "--batch", "256"]),
        (
            "train_gpt",
            ["--steps", "2", "--batch", "4", "--context", "32", "--layers", "2", "--width", "32"],
        ),
    ],
)
def test_an_example_run_again_compiles_nothing(module, options, tmp_path):
    environ = {
        "TORCH_TRAINIUM_EAGER": "compiled",
        "TORCH_TRAINIUM_FALLBACK": "error",
        "TORCH_TRAINIUM_CACHE": str(tmp_path / "programs"),
    }
    code = EXAMPLE.format(module=module, out=str(tmp_path / "out"), options=options)
    printed = output_of(code, environ=environ, path=[EXAMPLES], timeout_seconds=600)
    first, second = [line for line in printed.splitlines() if line.startswith("misses")]
    assert first == second != "misses 0"
