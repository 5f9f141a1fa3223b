"""Programs with PyTorch's kernels in them: against XLA's own code, and against PyTorch on the CPU.

Each program is executed alone, its arguments prepared before. Training steps run in compiled eager.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from models import PROGRAMS
from results import RESULTS, machine, print_table, write
from timing import compare

from torch_trainium import eager
from torch_trainium.eager import calls
from torch_trainium.eager.engine_rewrites import engine_rewrites_are
from torch_trainium.lowering import dispatch

aten = torch.ops.aten
TRAINED = ("gpt", "resnet18")
BFLOAT16 = torch.bfloat16


@dataclass(frozen=True)
class Operator:
    """An operator on CPU tensors."""

    name: str
    overload: Any
    arguments: tuple[Any, ...]

    def on_the_cpu(self) -> Any:
        return self.overload(*self.arguments)

    def program(self, with_rewrites: bool) -> tuple[Callable[[], Any], int]:
        """The execution of its program, and how many kernels that calls."""
        with engine_rewrites_are(with_rewrites):
            arguments = dispatch.bind(self.overload, self.arguments, {})
            prepared = calls.operator(self.overload).prepare(list(arguments.values()))
        entry = prepared.entry
        execute = entry.bound(prepared.tensors, prepared.numbers)
        return execute, sum(entry.program.kernels().values())


def products() -> Iterator[Operator]:
    r = torch.randn
    for n in (64, 128, 256, 512):
        yield Operator(f"mm {n}", aten.mm.default, (r(n, n), r(n, n)))
    wide, deep = r(1024, 256), r(1024, 1024)
    yield Operator("mm 1024x256 by 256x1024", aten.mm.default, (wide, r(256, 1024)))
    yield Operator("mm, first transposed", aten.mm.default, (wide.t(), deep))
    yield Operator("mm, second transposed", aten.mm.default, (wide, r(1024, 256).t()))
    yield Operator("mm, a row", aten.mm.default, (r(1, 1024), deep))
    batch, other = r(32, 128, 64), r(32, 64, 128)
    yield Operator("bmm 32 of 128x64 by 64x128", aten.bmm.default, (batch, other))
    yield Operator("bmm, second transposed", aten.bmm.default, (batch, r(32, 128, 64).mT))
    narrow = [t.to(BFLOAT16) for t in (wide, r(256, 1024), r(1024, 256))]
    yield Operator("mm in bfloat16", aten.mm.default, (narrow[0], narrow[1]))
    transposed = narrow[0], narrow[2].t()
    yield Operator("mm in bfloat16, second transposed", aten.mm.default, transposed)


def convolutions() -> Iterator[Operator]:
    shapes = {
        "3x3, 64 to 64": ((8, 64, 28, 28), (64, 64, 3, 3), 1, 1, 1),
        "3x3 by 2, 64 to 128": ((8, 64, 28, 28), (128, 64, 3, 3), 2, 1, 1),
        "1x1, 64 to 256": ((8, 64, 28, 28), (256, 64, 1, 1), 1, 0, 1),
        "depthwise 7x7, 96": ((4, 96, 28, 28), (96, 1, 7, 7), 1, 3, 96),
        "7x7 by 2, 3 to 64": ((4, 3, 64, 64), (64, 3, 7, 7), 2, 3, 1),
        "patches of 16, 3 to 192": ((4, 3, 64, 64), (192, 3, 16, 16), 16, 0, 1),
        "signal, 3, 64 to 64": ((4, 64, 400), (64, 64, 3), 1, 1, 1),
        "small 3x3, 8 to 8": ((1, 8, 8, 8), (8, 8, 3, 3), 1, 1, 1),
    }
    for name, (image_shape, kernel_shape, stride, padding, groups) in shapes.items():
        dims = len(kernel_shape) - 2
        zeros = [0] * dims
        geometry = ([stride] * dims, [padding] * dims, [1] * dims, False, zeros, groups)
        image, kernel = torch.randn(image_shape), torch.randn(kernel_shape)
        bias = torch.randn(kernel_shape[0])
        forward = Operator(name, aten.convolution.default, (image, kernel, bias, *geometry))
        yield forward
        grad = torch.randn_like(forward.on_the_cpu())
        for of, mask in (("image", [True, False, False]), ("kernel", [False, True, False])):
            arguments = (grad, image, kernel, None, *geometry, mask)
            overload = aten.convolution_backward.default
            yield Operator(f"{name}, gradient of the {of}", overload, arguments)


def orders() -> Iterator[Operator]:
    for shape, dim in (((100,), 0), ((256, 1024), 1), ((256, 1024), 0), ((1_000_000,), 0)):
        named = f"{'x'.join(map(str, shape))} along {dim}"
        yield Operator(f"cumsum {named}", aten.cumsum.default, (torch.randn(shape), dim))
        yield Operator(f"sort {named}", aten.sort.default, (torch.randn(shape), dim))
    yield Operator("sort of int64 256x1024", aten.sort.default, (_integers(256, 1024), 1))
    for count in (1, 50, 500):
        a = torch.randn(64, 1000)
        yield Operator(f"topk {count} of 1000, 64 times", aten.topk.default, (a, count))


def _integers(*shape: int) -> torch.Tensor:
    return torch.randint(1 << 40, shape)


GROUPS = {"products": products, "convolutions": convolutions, "orders": orders}


def measure_operator(operator: Operator, runs: int, seconds: float) -> dict[str, Any]:
    rewritten, kernels = operator.program(True)
    plain, _ = operator.program(False)
    to_pytorch = compare(rewritten, operator.on_the_cpu, runs, seconds)
    to_xla = compare(rewritten, plain, runs, seconds)
    return {
        "name": operator.name,
        "kernels": kernels,
        "us": round(to_pytorch.device_us, 1),
        "pytorch_us": round(to_pytorch.cpu_us, 1),
        "xla_us": round(to_xla.cpu_us, 1),
        "to_pytorch": round(to_pytorch.ratio, 3),
        "to_xla": round(to_xla.ratio, 3),
    }


def measure_training(name: str, rounds: int, steps: int) -> dict[str, Any]:
    """Medians of a training step: with rewrites, without, and on the CPU, in turns."""
    on_device, on_cpu = (PROGRAMS[name].step_on(device) for device in ("neuron", "cpu"))
    times: dict[str, list[float]] = {"rewritten": [], "xla": [], "pytorch": []}
    for _ in range(rounds):
        for way, enabled in (("rewritten", True), ("xla", False)):
            with eager.eager_mode_is("compiled"), engine_rewrites_are(enabled):
                times[way].append(_median_ms(on_device, steps))
        times["pytorch"].append(_median_ms(on_cpu, steps))
    ours = times["rewritten"]
    row: dict[str, Any] = {"name": name}
    for way, medians in times.items():
        row[f"{way}_ms"] = round(statistics.median(medians), 2)
        row[f"to_{way}"] = round(
            statistics.median(a / b for a, b in zip(ours, medians, strict=True)), 3
        )
    return row


def _median_ms(step: Callable[[], torch.Tensor], steps: int) -> float:
    for _ in range(3):
        step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step().item()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--only", choices=[*GROUPS, "training"], help="one group; writes nothing")
    parser.add_argument("--output", type=Path, default=RESULTS / "engine_rewrites.json")
    args = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    runs, seconds = (5, 0.02) if args.quick else (15, 0.05)
    operators = []
    with torch.no_grad():
        for group, make in GROUPS.items():
            if args.only in (None, group):
                operators += [measure_operator(o, runs, seconds) for o in make()]
    training = []
    if args.only in (None, "training"):
        rounds, steps = (2, 5) if args.quick else (5, 15)
        with eager.fallback_is("allow"):
            training = [measure_training(name, rounds, steps) for name in TRAINED]
    keys = ("us", "xla_us", "pytorch_us", "to_xla", "to_pytorch", "kernels")
    rows = [[row["name"], *(str(row[key]) for key in keys)] for row in operators]
    print_table(["program", "us", "XLA us", "PyTorch us", "to XLA", "to PyTorch", "calls"], rows)
    keys = ("rewritten_ms", "xla_ms", "pytorch_ms", "to_xla", "to_pytorch")
    rows = [[row["name"], *(str(row[key]) for key in keys)] for row in training]
    print_table(["training", "ms", "XLA ms", "PyTorch ms", "to XLA", "to PyTorch"], rows)
    if args.only is None:
        effort = "quick" if args.quick else "full"
        found = {"operators": operators, "training": training}
        write(args.output, {"machine": machine(), "load": load, "effort": effort, **found})


if __name__ == "__main__":
    main()
