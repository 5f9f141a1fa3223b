"""Eager execution on neuron against the CPU, in one process, interleaved.

What runs on neuron is PyTorch's own CPU kernels on emulated device memory, so the ratio is the
cost of the device layer. The second peer is PyTorch's stock way to do that, the boxed CPU
fallback with copies; only one such backend fits in a process, so it runs in a process of its
own, and its ratio is to the CPU's time there.
"""

import argparse
import importlib
import json
import operator
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import peak_memory
import torch
from models import PROGRAMS
from overloads import CALLS, SIDES, Operands, hot_overloads
from results import RESULTS, machine, print_table, write
from timeline_cost import timeline_cost
from timing import Comparison, compare

ROOT = Path(__file__).resolve().parent.parent
# Ratio to the CPU that must not be exceeded.
BARS = {"add": 1.4, "view": 1.1, "overloads": 1.5, "mlp": 1.35, "gpt": 1.03, "resnet18": 1.03}
MEMORY_BAR = 1.05


@dataclass(frozen=True)
class Effort:
    """How long to measure: pairs of runs, and seconds per run."""

    runs: int
    seconds: float
    step_runs: int
    overload_runs: int
    overload_seconds: float
    memory_runs: int


FULL = Effort(31, 0.02, 25, 9, 0.004, 3)
QUICK = Effort(9, 0.01, 5, 3, 0.002, 1)


def single_calls(device: str, effort: Effort) -> dict[str, Comparison]:
    results = {}
    ours, cpu = torch.ones(1, device=device), torch.ones(1)
    for name, call in {"add": operator.add, "view": torch.Tensor.view}.items():
        second = {"add": (ours, cpu), "view": (1, 1)}[name]
        calls = (partial(call, ours, second[0]), partial(call, cpu, second[1]))
        results[name] = compare(*calls, effort.runs, effort.seconds)
    return results


def overloads(device: str, effort: Effort) -> Iterator[dict[str, Any]]:
    """One row per overload, size and layout; an error instead of times where it cannot run."""
    for name in hot_overloads():
        for elements in SIDES:
            for strided in (False, True):
                row: dict[str, Any] = {"name": name, "elements": elements, "strided": strided}
                cpu = CALLS[name](Operands("cpu", elements, strided))
                try:
                    ours = CALLS[name](Operands(device, elements, strided))
                    runs, seconds = effort.overload_runs, effort.overload_seconds
                    yield row | compare(ours, cpu, runs, seconds).as_json()
                except (RuntimeError, NotImplementedError) as error:
                    yield row | {"error": str(error).partition("\n")[0]}


def steps(device: str, effort: Effort) -> Iterator[tuple[str, Comparison | str]]:
    """Training steps; the error where a program cannot run."""
    for name in ("mlp", "gpt", "resnet18"):
        cpu = PROGRAMS[name].step_on("cpu")
        try:
            ours = PROGRAMS[name].step_on(device)
            torch.testing.assert_close(ours().cpu(), cpu(), msg=f"{name} computes something else")
            is_short = name == "mlp"
            runs = effort.runs if is_short else effort.step_runs
            yield name, compare(ours, cpu, runs, effort.seconds if is_short else 0.0)
        except (RuntimeError, NotImplementedError) as error:
            yield name, str(error).partition("\n")[0]


def measure(device: str, effort: Effort) -> dict[str, Any]:
    times: dict[str, Any] = {}
    for name, result in (*single_calls(device, effort).items(), *steps(device, effort)):
        times[name] = {"error": result} if isinstance(result, str) else result.as_json()
        print(f"  {device}: {name} {times[name].get('ratio', 'cannot run')}", file=sys.stderr)
    rows = []
    for row in overloads(device, effort):
        rows.append(row)
        if sys.stderr.isatty():
            print(f"\r\033[K  {device}: {len(rows)} {row['name']}", end="", file=sys.stderr)
    print(f"  {device}: {len(rows)} overload cases", file=sys.stderr)
    return {"times": times, "overloads": rows}


def overload_medians(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Median ratio over the overloads at each size and layout, and over all of that."""
    medians = {}
    for elements in SIDES:
        for strided in (False, True):
            ratios = [
                row["ratio"]
                for row in rows
                if "ratio" in row and (row["elements"], row["strided"]) == (elements, strided)
            ]
            layout = "strided" if strided else "contiguous"
            medians[f"{elements:,} {layout}"] = statistics.median(ratios)
    medians["all"] = statistics.median(row["ratio"] for row in rows if "ratio" in row)
    return {name: round(value, 4) for name, value in medians.items()}


def stock_fallback(arguments: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "stock.json"
        command = [sys.executable, __file__, "--device", "stock", "--output", str(output)]
        environ = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        subprocess.run([*command, *arguments], env=environ, check=True, stdout=subprocess.DEVNULL)
        return dict(json.loads(output.read_text()))


def peak_memory_ratios(effort: Effort) -> dict[str, dict[str, float]]:
    ratios = {}
    for program in ("gpt", "resnet18"):
        grown = {
            device: statistics.median(
                peak_memory.measured(program, device) for _ in range(effort.memory_runs)
            )
            for device in ("neuron", "cpu")
        }
        ratio = grown["neuron"] / grown["cpu"]
        ratios[program] = {f"{d}_bytes": value for d, value in grown.items()}
        ratios[program]["ratio"] = round(ratio, 4)
    return ratios


def summary(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Every measure with its bar and both peers: what the table and the check are made from."""
    stock = result.get("stock_fallback", {"times": {}})
    rows = []
    for name, times in result["times"].items():
        peer = stock["times"].get(name, {}).get("ratio")
        rows.append({"name": name, **times, "bar": BARS[name], "stock_ratio": peer})
    peers = stock.get("overload_medians", {})
    for name, median in result["overload_medians"].items():
        row = {"name": f"overloads, {name}", "ratio": median, "bar": BARS["overloads"]}
        rows.append(row | {"stock_ratio": peers.get(name)})
    for program, memory in result["peak_memory"].items():
        row = {"name": f"peak memory, {program}", "ratio": memory["ratio"], "bar": MEMORY_BAR}
        rows.append(row | {"stock_ratio": None})
    return rows


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    cells = []
    for row in rows:
        times = [number(row.get("cpu_us")), number(row.get("device_us"))]
        verdict = "ok" if row["ratio"] <= row["bar"] else "MISSED"
        ratios = [f"{row['ratio']:.3f}", number(row["bar"]), number(row["stock_ratio"])]
        cells.append([row["name"], *times, *ratios, verdict])
    return cells


def timeline_table(result: dict[str, Any]) -> list[list[str]]:
    cells = []
    for row in result["timeline_cost"]:
        bar = row["bar"]
        verdict = "" if bar is None else "ok" if row["us"] <= bar else "MISSED"
        cells.append([row["mode"], f"{row['us']:.3f}", "" if bar is None else f"{bar}", verdict])
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute, with more noise")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is missed")
    parser.add_argument("--device", choices=["neuron", "stock"], default="neuron")
    parser.add_argument("--no-peer", action="store_true", help="leave the stock fallback out")
    parser.add_argument("--output", type=Path, default=RESULTS / "eager.json")
    args = parser.parse_args()
    effort = QUICK if args.quick else FULL
    sys.path.insert(0, str(ROOT))
    if args.device == "stock":
        importlib.import_module("stock_fallback").register()
    else:
        importlib.import_module("torch_trainium")

    result: dict[str, Any] = {"effort": "quick" if args.quick else "full", "machine": machine()}
    result |= measure(args.device, effort)
    result["overload_medians"] = overload_medians(result["overloads"])
    if args.device == "neuron":
        if not args.no_peer:
            result["stock_fallback"] = stock_fallback(["--quick"] if args.quick else [])
        result["peak_memory"] = peak_memory_ratios(effort)
        result["timeline_cost"] = timeline_cost(effort.runs)
        result["summary"] = summary(result)
    write(args.output, result)
    if args.device == "stock":
        return 0
    header = ["measure", "cpu us", "neuron us", "ratio", "bar", "stock fallback", ""]
    rows = result["summary"]
    print_table(header, table(rows))
    print_table(["timeline", "us per operator", "bar us", ""], timeline_table(result))
    missed = any(row["ratio"] > row["bar"] for row in rows) or any(
        row["bar"] is not None and row["us"] > row["bar"] for row in result["timeline_cost"]
    )
    return int(args.check and missed)


if __name__ == "__main__":
    sys.exit(main())
