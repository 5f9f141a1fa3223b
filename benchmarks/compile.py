"""Architectures under torch.compile: on the emulated device, against Inductor on the CPU.

Inference and a training step, each way in a process of its own with empty caches. A compile time is
that of the first step, after another function was compiled. Then the processes take turns, a step
each.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from architectures import ARCHITECTURES
from results import RESULTS, machine, print_table, write

ROOT = Path(__file__).resolve().parent.parent
PHASES = ("inference", "training")
WAYS = {
    "compiled": ("--device", "neuron", "--compile"),
    "eager": ("--device", "neuron"),
    "inductor": ("--device", "cpu", "--compile"),
}
# At most: compile time and step time over Inductor's, over all and for one; over our eager step.
BARS = {"first": 0.25, "step": 1.15, "worst_step": 1.6, "step_over_eager": 1.0}


class Worker:
    """A process that is ready to step."""

    def __init__(self, name: str, phase: str, way: str, caches: Path) -> None:
        environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.getenv("PYTHONPATH")))),
            "TORCH_TRAINIUM_CACHE": str(caches / "programs"),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0" if way == "inductor" else "1",
            "HF_HUB_OFFLINE": "1",
        }
        self.process = subprocess.Popen(
            [
                sys.executable,
                Path(__file__).with_name("compile_worker.py"),
                name,
                phase,
                *WAYS[way],
            ],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.report = json.loads(self._line())

    def step_ms(self) -> float:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self.process.communicate()

    def _line(self) -> str:
        if line := self.process.stdout.readline():
            return line
        raise SystemExit(f"{' '.join(map(str, self.process.args))}: exit {self.process.wait()}")


def measure(name: str, phase: str, steps: int) -> dict[str, Any]:
    with ExitStack() as stack:
        workers = {}
        for way in WAYS:
            caches = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            workers[way] = Worker(name, phase, way, caches)
            stack.callback(workers[way].close)
        # The first turn of each is not counted.
        turns = [{w: worker.step_ms() for w, worker in workers.items()} for _ in range(steps + 1)]
        return {
            "name": name,
            "phase": phase,
            "ways": {
                way: {**worker.report, "step_ms": [turn[way] for turn in turns[1:]]}
                for way, worker in workers.items()
            },
        }


def summary(row: dict[str, Any]) -> dict[str, float]:
    """Medians and ratios of one row; the ratio of steps is the median over turns."""
    ours, eager, peer = (row["ways"][way] for way in ("compiled", "eager", "inductor"))
    over = {
        way: statistics.median(a / b for a, b in zip(ours["step_ms"], by["step_ms"], strict=True))
        for way, by in (("step", peer), ("step_over_eager", eager))
    }
    return {
        "first": ours["first_s"] / peer["first_s"],
        **over,
        **{f"{way}_ms": statistics.median(row["ways"][way]["step_ms"]) for way in WAYS},
    }


def geometric_means(summaries: list[dict[str, float]]) -> dict[str, float]:
    means = {
        key: statistics.geometric_mean(row[key] for row in summaries)
        for key in ("first", "step", "step_over_eager")
    }
    return {**means, "worst_step": max(row["step"] for row in summaries)}


def printed(row: dict[str, Any]) -> list[str]:
    found, ours = row["summary"], row["ways"]["compiled"]
    return [
        f"{row['name']}, {row['phase']}",
        *(f"{found[f'{way}_ms']:.1f}" for way in WAYS),
        f"{found['step']:.2f}",
        f"{found['step_over_eager']:.2f}",
        f"{ours['first_s']:.1f}",
        f"{row['ways']['inductor']['first_s']:.1f}",
        f"{found['first']:.2f}",
        str(ours["graphs"]),
        str(len(ours["breaks"]) + sum(pieces - 1 for pieces in ours["pieces"])),
        "yes" if ours["is_same"] else "no",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ARCHITECTURES))
    parser.add_argument("--phase", choices=PHASES, action="append", help="default: both")
    parser.add_argument("--quick", action="store_true", help="5 steps of each instead of 30")
    parser.add_argument("--output", type=Path, default=RESULTS / "compile.json")
    args = parser.parse_args()
    if unknown := set(args.names) - set(ARCHITECTURES):
        parser.error(f"no architecture {', '.join(unknown)}: there are {', '.join(ARCHITECTURES)}")
    load = os.getloadavg()[0]
    rows = []
    for name in args.names or ARCHITECTURES:
        for phase in args.phase or PHASES:
            print(f"{name}, {phase}", file=sys.stderr, flush=True)
            row = measure(name, phase, 5 if args.quick else 30)
            rows.append({**row, "summary": summary(row)})
    means = {
        phase: geometric_means([row["summary"] for row in rows if row["phase"] == phase])
        for phase in args.phase or PHASES
    }
    content = {
        "machine": machine(),
        "load": load,
        "effort": "quick" if args.quick else "full",
        "bars": BARS,
        "means": means,
        "rows": rows,
    }
    write(args.output, content)
    header = ["", *(f"{way} ms" for way in WAYS), "/ inductor", "/ eager"]
    header += ["first s", "inductor s", "ratio", "graphs", "breaks", "same"]
    print_table(header, [printed(row) for row in rows])
    for phase, found in means.items():
        print(phase, ", ".join(f"{key} {value:.2f} ({BARS[key]})" for key, value in found.items()))


if __name__ == "__main__":
    main()
