"""Training steps under torch.compile: on the emulated device, on the CPU with Inductor, and eager.

Each in a process of its own with empty caches; compile times are those of the first step.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from results import RESULTS, machine, print_table, write

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("mlp", "conv_net", "gpt")
WAYS = {
    "neuron eager": ("neuron", False),
    "neuron compiled": ("neuron", True),
    "cpu inductor": ("cpu", True),
}


def training_step(name: str, device: str, is_compiled: bool) -> Callable[[], None]:
    import torch

    from tests.compile import models

    torch.manual_seed(0)
    make, sample = {
        "mlp": (models.mlp, lambda: torch.randn(256, 8)),
        "conv_net": (models.conv_net, lambda: torch.randn(32, 3, 8, 8)),
        "gpt": (
            lambda: models.Gpt(vocabulary=256, width=128, length=64),
            lambda: torch.randint(256, (8, 64)),
        ),
    }[name]
    model = make().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = sample().to(device)
    forward = torch.compile(model) if is_compiled else model

    def step() -> None:
        optimizer.zero_grad()
        forward(x).square().mean().backward()
        optimizer.step()

    return step


def measure(name: str, way: str, steps: int) -> dict[str, float]:
    device, is_compiled = WAYS[way]
    if device == "neuron":
        import torch_trainium  # noqa: F401
    step = training_step(name, device, is_compiled)
    start = time.perf_counter()
    step()
    first_s = time.perf_counter() - start
    step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return {"first_s": first_s, "step_ms": statistics.median(times) * 1e3}


def in_process(name: str, way: str, steps: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TORCH_TRAINIUM_CACHE": f"{folder}/programs",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        }
        command = [sys.executable, __file__, "--one", name, way, "--steps", str(steps)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "WAY"), help="measure here; JSON")
    parser.add_argument("--output", type=Path, default=RESULTS / "compile.json")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one, args.steps)))
        return
    rows, found = [], {}
    for name in args.models:
        by_way = found[name] = {way: in_process(name, way, args.steps) for way in WAYS}
        ours, peer = by_way["neuron compiled"], by_way["cpu inductor"]
        rows.append(
            [
                name,
                *(f"{by_way[way]['step_ms']:.2f}" for way in WAYS),
                f"{ours['step_ms'] / peer['step_ms']:.2f}",
                f"{ours['first_s']:.1f}",
                f"{peer['first_s']:.1f}",
                f"{ours['first_s'] / peer['first_s']:.2f}",
            ]
        )
    write(args.output, {"machine": machine(), "steps": args.steps, "models": found})
    header = ["model", *(f"{way} ms" for way in WAYS), "ratio", "first s", "inductor s", "ratio"]
    print_table(header, rows)


if __name__ == "__main__":
    main()
