"""Long training holds no more memory at its end than near its start."""

import gc
import math
from pathlib import Path

import torch
import torch.nn.functional as F

STEPS = 10_000
SETTLED = 1_000
ALLOWED_HOST_BYTES = 4 << 20


def resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def test_ten_thousand_training_steps_hold_no_more_memory() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    ).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    labels = torch.tensor([0, 1, 2, 3], device="neuron")

    def held() -> tuple[int, int, int]:
        gc.collect()
        stats = torch.neuron.memory_stats()
        device = (stats["allocated_bytes.all.current"], stats["reserved_bytes.all.current"])
        return *device, resident_bytes()

    settled = (0, 0, 0)
    for step in range(STEPS):
        if step == SETTLED:
            settled = held()
        optimizer.zero_grad()
        data = torch.randn(4, 8).to("neuron")
        loss = F.cross_entropy(model(F.dropout(data)), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            assert math.isfinite(loss.item())
    allocated, reserved, resident = held()
    assert allocated <= settled[0]
    assert reserved <= settled[1]
    assert resident - settled[2] < ALLOWED_HOST_BYTES
