"""One way to run one architecture, in a process of its own that steps when it is told to.

Started by compile.py. Prints one JSON object when it is ready, then reads lines: for each it runs
one step and prints the milliseconds.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from architectures import Workload, build
from torch import Tensor, nn

# What PyTorch's benchmarks of compilers ask of float32 (benchmarks/dynamo/common.py).
TOLERANCE = 1e-4


def step_of(workload: Workload, phase: str, is_compiled: bool) -> Callable[[], Tensor]:
    options = {"dynamic": False} if is_compiled else {}
    return getattr(workload, phase)(**options)


def results(workload: Workload, phase: str, output: Tensor) -> list[Tensor]:
    """What a step computed: its output, or its loss and gradients."""
    found = [output]
    if phase == "training":
        found += [p.grad for p in workload.model.parameters() if p.grad is not None]
    return [result.detach().cpu() for result in found]


def on_cpu(name: str, phase: str, dtype: torch.dtype) -> list[Tensor]:
    """The results of CPU eager, computed in that type."""
    workload = build(name, "benchmark")
    workload = replace(
        workload,
        model=workload.model.to(dtype),
        inputs={n: v.to(dtype) if v.is_floating_point() else v for n, v in workload.inputs.items()},
        target=workload.target.to(dtype)
        if workload.target.is_floating_point()
        else workload.target,
    )
    return results(workload, phase, step_of(workload, phase, False)())


def compile_something_else(device: str, phase: str) -> None:
    """What a process does once, such as importing the compiler, is no part of a compile time."""
    model = nn.Linear(4, 4)
    inputs = {"input": torch.randn(2, 4)}
    workload = Workload(model, inputs, torch.zeros(2, dtype=torch.long)).to(device)
    step_of(workload, phase, True)()
    torch._dynamo.reset()


def timed(step: Callable[[], Tensor]) -> tuple[Tensor, float]:
    """The step's result and its seconds."""
    start = time.perf_counter()
    result = step()
    if result.device.type == "neuron":
        torch.neuron.synchronize()
    return result, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("phase", choices=("inference", "training"))
    parser.add_argument("--device", required=True)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    expected = on_cpu(args.name, args.phase, torch.float32)
    exact = on_cpu(args.name, args.phase, torch.float64)
    workload = build(args.name, "benchmark").to(args.device)
    programs = []
    if args.compile:
        torch._dynamo.config.allow_rnn = True
        compile_something_else(args.device, args.phase)
        torch._dynamo.utils.counters.clear()
        if args.device == "neuron":
            from torch_trainium.compile import backend

            backend.observers.append(programs.append)
    step = step_of(workload, args.phase, args.compile)
    output, first_s = timed(step)
    actual = results(workload, args.phase, output)
    report = {
        "first_s": first_s,
        "is_same": torch._dynamo.utils.same(expected, actual, exact, tol=TOLERANCE),
        "breaks": dict(torch._dynamo.utils.counters["graph_break"]),
        "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"],
        "pieces": [len(graph.pieces) for graph in programs],
    }
    print(json.dumps(report), flush=True)
    for _ in sys.stdin:
        print(timed(step)[1] * 1e3, flush=True)


if __name__ == "__main__":
    main()
