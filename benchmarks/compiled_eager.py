"""Compiled eager: cold compiles, hits above the program's own execution, cold and warm starts.

The programs are those that the two training scripts of examples/ run in their first step, in
fresh processes with an empty cache.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from results import RESULTS, machine, print_table, write

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ("train_gpt", "train_digits")
COMPILE_BAR_MS = 60.0
HIT_BAR_US = 30.0
WARM_BAR = 5.0
MIN_PAIRS = 25


class FirstStepDone(Exception):
    """Leaves an example after its first step."""


class Start(NamedTuple):
    """A process from the end of its imports to the end of its first step.

    Attributes:
        seconds: without the import of torch._dynamo, which PyTorch does for any device when the
            first optimizer is made, and which is done before here.
        cpu_seconds: the same on all CPUs.
        dynamo_seconds: that import.

    """

    seconds: float
    cpu_seconds: float
    dynamo_seconds: float


def first_step(example: str, out: str) -> Start:
    """Run an example to the end of its first step."""
    sys.path.insert(0, str(ROOT / "examples"))
    module = importlib.import_module(example)
    start = time.perf_counter()
    importlib.import_module("torch._dynamo")
    dynamo_seconds = time.perf_counter() - start
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def leave(*_: object) -> None:
        raise FirstStepDone

    hook = register_optimizer_step_post_hook(leave)
    sys.argv = [example, "--device", "neuron", "--out", out]
    start, cpu_start = time.perf_counter(), time.process_time()
    try:
        module.main()
    except FirstStepDone:
        return Start(time.perf_counter() - start, time.process_time() - cpu_start, dynamo_seconds)
    finally:
        hook.remove()
    raise RuntimeError(f"{example} ended before its first step")


def measure_start(example: str, out: str) -> dict[str, Any]:
    """The start of one process, and the CPU time of each compile in it, on all threads."""
    from torch_trainium import eager
    from torch_trainium.eager import calls

    compile_cpu_ms = []
    prepare = calls.Operator.prepare

    def timed(operator: calls.Operator, arguments: list[Any]) -> calls.PreparedCall:
        start, known = time.process_time(), len(operator.entries)
        prepared = prepare(operator, arguments)
        if len(operator.entries) > known and prepared.entry.origin == "compiler":
            compile_cpu_ms.append((time.process_time() - start) * 1e3)
        return prepared

    calls.Operator.prepare = timed  # type: ignore[method-assign, assignment]
    start = first_step(example, out)
    found = eager.program_statistics()
    return {
        "start": start,
        "compiles": found.compiles,
        "fallback_calls": eager.fallback_calls(),
        "compile_ms": [p.seconds * 1e3 for p in found.programs if p.origin == "compiler"],
        "compile_cpu_ms": compile_cpu_ms,
    }


def measure_hits(example: str, out: str, seconds_per_program: float) -> list[dict[str, Any]]:
    """Each program of an example's first step, called again, and its execution alone."""
    import torch

    from torch_trainium.eager import calls

    seen: dict[int, tuple[Any, list[Any], calls.PreparedCall]] = {}
    prepare = calls.Operator.prepare

    def record(operator: calls.Operator, arguments: list[Any]) -> calls.PreparedCall:
        prepared = prepare(operator, arguments)
        seen.setdefault(id(prepared.entry), (operator.overload, list(arguments), prepared))
        return prepared

    calls.Operator.prepare = record  # type: ignore[method-assign, assignment]
    first_step(example, out)
    calls.Operator.prepare = prepare  # type: ignore[method-assign]
    rows = []
    with torch.no_grad():
        for overload, arguments, prepared in seen.values():
            if prepared.entry.program is None:
                continue
            execute = prepared.entry.bound(prepared.tensors, prepared.numbers, prepared.generator)
            call_us, execute_us, overhead_us = compare(
                _again(overload, arguments), execute, seconds_per_program
            )
            rows.append(
                {
                    "operator": overload.name(),
                    "tensors": len(prepared.tensors),
                    "call_us": round(call_us, 2),
                    "execute_us": round(execute_us, 2),
                    "overhead_us": round(overhead_us, 2),
                }
            )
    return rows


def compare(
    call: Callable[[], Any], execute: Callable[[], Any], seconds: float
) -> tuple[float, float, float]:
    """Medians of both and of their difference, in microseconds.

    They take turns call by call: what a busy machine does to one it does to the other.
    """
    for warm in (call, execute) * 3:
        warm()
    pairs: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while len(pairs) < MIN_PAIRS or time.perf_counter() < end:
        a = time.perf_counter()
        call()
        b = time.perf_counter()
        execute()
        c = time.perf_counter()
        pairs.append(((b - a) * 1e6, (c - b) * 1e6))
    return (
        statistics.median(called for called, _ in pairs),
        statistics.median(executed for _, executed in pairs),
        statistics.median(called - executed for called, executed in pairs),
    )


def _again(overload: Any, arguments: list[Any]) -> Callable[[], Any]:
    schema = overload._schema.arguments
    named = {a.name: v for a, v in zip(schema, arguments, strict=True) if a.kwarg_only}
    positional = [v for a, v in zip(schema, arguments, strict=True) if not a.kwarg_only]
    return lambda: overload(*positional, **named)


def in_fresh_process(part: str, example: str, cache: str, *options: str) -> Any:
    """What a part of this file measures, in a process of its own with this cache."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TORCH_TRAINIUM_EAGER": "compiled",
        "TORCH_TRAINIUM_FALLBACK": "allow",
        "TORCH_TRAINIUM_CACHE": cache,
    }
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, __file__, "--part", part, "--example", example, *options]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(runs: int, seconds_per_program: float) -> dict[str, Any]:
    """Everything, with the load of the machine at the start."""
    load = os.getloadavg()[0]
    compile_ms: list[float] = []
    compile_cpu_ms: list[float] = []
    hits = []
    starts: list[tuple[Start, Start]] = []
    fallback_calls: dict[str, dict[str, int]] = {}
    for example in EXAMPLES:
        for run in range(runs if example == "train_gpt" else 1):
            with tempfile.TemporaryDirectory() as cache:
                cold = in_fresh_process("start", example, cache)
                warm = in_fresh_process("start", example, cache)
                if warm["compiles"]:
                    raise RuntimeError(f"{example} compiled {warm['compiles']} programs again")
                if run == 0:
                    fallback_calls[example] = warm["fallback_calls"]
                    compile_ms += cold["compile_ms"]
                    compile_cpu_ms += cold["compile_cpu_ms"]
                    hits += in_fresh_process(
                        "hits", example, cache, "--seconds-per-program", str(seconds_per_program)
                    )
            if example == "train_gpt":
                starts.append((Start(*cold["start"]), Start(*warm["start"])))
    overheads = [row["overhead_us"] for row in hits]
    return {
        "machine": machine(),
        "load": round(load, 1),
        "compile_ms": {**_spread(compile_ms), "bar": COMPILE_BAR_MS},
        "compile_cpu_ms": _spread(compile_cpu_ms),
        "hit_us": {**_spread(overheads), "bar": HIT_BAR_US},
        "start_s": {**_compared(starts, lambda start: start.seconds), "bar": WARM_BAR},
        "start_with_dynamo_s": _compared(
            starts, lambda start: start.seconds + start.dynamo_seconds
        ),
        "start_cpu_s": _compared(starts, lambda start: start.cpu_seconds),
        "fallback_calls": fallback_calls,
        "hits": sorted(hits, key=lambda row: -row["overhead_us"]),
    }


def _compared(
    starts: list[tuple[Start, Start]], seconds: Callable[[Start], float]
) -> dict[str, Any]:
    """Cold against warm starts, each pair measured one after the other.

    `ratio` is the median of the pairs' ratios: what slows the machine down for a while does not
    count for one side only. `ratio_of_medians` is that of `cold` and `warm`, the medians.
    """
    pairs = [(seconds(cold), seconds(warm)) for cold, warm in starts]
    ratios = [cold / warm for cold, warm in pairs]
    cold, warm = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {
        "cold": round(cold, 2),
        "warm": round(warm, 2),
        "ratio": round(statistics.median(ratios), 2),
        "lowest_ratio": round(min(ratios), 2),
        "ratio_of_medians": round(cold / warm, 2),
        "pairs": [[round(cold, 3), round(warm, 3)] for cold, warm in pairs],
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "programs": len(values),
        "median": round(statistics.median(values), 2),
        "p90": round(statistics.quantiles(values, n=10)[-1], 2),
        "max": round(max(values), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one pair of starts, shorter runs")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is missed")
    parser.add_argument("--output", type=Path, default=RESULTS / "compiled_eager.json")
    parser.add_argument("--part", choices=("start", "hits"), help=argparse.SUPPRESS)
    parser.add_argument("--example", choices=EXAMPLES, help=argparse.SUPPRESS)
    parser.add_argument("--seconds-per-program", type=float, default=0.3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        with tempfile.TemporaryDirectory() as out:
            measured: Any = (
                measure_start(args.example, out)
                if args.part == "start"
                else measure_hits(args.example, out, args.seconds_per_program)
            )
        print()  # ends a progress bar's line
        print(json.dumps(measured))
        return 0
    result = measure(1 if args.quick else 5, 0.05 if args.quick else args.seconds_per_program)
    result["effort"] = "quick" if args.quick else "full"
    write(args.output, result)
    compile_ms, hit_us, start_s = result["compile_ms"], result["hit_us"], result["start_s"]
    print_table(
        ["measure", "median", "90th", "max", "bar"],
        [
            [name, *(f"{row.get(key, 0):.1f}" for key in ("median", "p90", "max", "bar"))]
            for name, row in (
                ("cold compile, ms", compile_ms),
                ("cold compile, CPU ms", result["compile_cpu_ms"]),
                ("hit overhead, us", hit_us),
            )
        ],
    )
    print_table(
        ["start of train_gpt", "cold s", "warm s", "cold/warm", "pairs' ratio", "lowest", "bar"],
        [
            [
                name,
                *(
                    f"{row.get(key, 0):.2f}"
                    for key in ("cold", "warm", "ratio_of_medians", "ratio", "lowest_ratio", "bar")
                ),
            ]
            for name, row in (
                ("to the first step", start_s),
                ("CPU time", result["start_cpu_s"]),
                ("with import of torch._dynamo", result["start_with_dynamo_s"]),
            )
        ],
    )
    for example, calls in result["fallback_calls"].items():
        print(f"on the CPU in {example}:", calls or "nothing")
    missed = (
        compile_ms["median"] > COMPILE_BAR_MS
        or hit_us["median"] > HIT_BAR_US
        or min(start_s["ratio"], start_s["ratio_of_medians"]) < WARM_BAR
    )
    return int(args.check and missed)


if __name__ == "__main__":
    sys.exit(main())
