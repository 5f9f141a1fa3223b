"""Training in compiled mode: the CPU's losses, no fallbacks, no compiles in the steady state."""

import pytest
import torch
from torch import nn

from torch_trainium import eager
from torch_trainium.engines.programs import program_cache

STEPS = 12


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LayerNorm(64),
        nn.Linear(64, 16),
        nn.GELU(),
        nn.Linear(16, 10),
    )


def losses(device: str, mode: str) -> tuple[list[float], int]:
    """Of each step, and how many programs were compiled after the second."""
    net = model().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=STEPS)
    generator = torch.Generator().manual_seed(1)
    found, compiles = [], 0
    with eager.eager_mode_is(mode), torch.neuron.fallback_is("error"):
        for step in range(STEPS):
            images = torch.randn(8, 1, 8, 8, generator=generator).to(device)
            labels = torch.randint(10, (8,), generator=generator).to(device)
            loss = nn.functional.cross_entropy(net(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            found.append(loss.item())
            if step == 1 and mode == "compiled":
                compiles = program_cache().statistics.compiles
        if mode == "compiled":
            compiles = program_cache().statistics.compiles - compiles
    return found, compiles


def test_losses_are_the_cpus_and_the_steady_state_compiles_nothing():
    expected, _ = losses("cpu", "host")
    actual, compiles = losses("neuron", "compiled")
    assert actual == pytest.approx(expected, rel=1e-4)
    assert compiles == 0
