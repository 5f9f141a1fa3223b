"""What the stream sanitizer costs while it is on: single operators and training steps."""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from models import PROGRAMS
from results import RESULTS, machine, print_table, write
from timing import compare

import torch_trainium  # noqa: F401  (registers torch.neuron)

RUNS = 15
_BATCH = 500


def _repeat(call: Callable[[], Any], times: int, sanitized: bool) -> None:
    if sanitized:
        with torch.neuron.sanitizer(error=True):
            _repeat(call, times, sanitized=False)
        return
    for _ in range(times):
        call()


def rows() -> list[dict[str, Any]]:
    """For each program its microseconds with the sanitizer off and on."""
    one = torch.ones(1, device="neuron")
    programs: dict[str, tuple[Callable[[], Any], int]] = {
        "add, one element": (lambda: one + one, _BATCH),
        "add, on the CPU": (partial(torch.add, one.cpu(), one.cpu()), _BATCH),
    }
    programs |= {
        f"{name}, training step": (PROGRAMS[name].step_on("neuron"), 1) for name in ("mlp", "gpt")
    }
    measured = []
    for name, (call, times) in programs.items():
        on, off = (partial(_repeat, call, times, sanitized) for sanitized in (True, False))
        result = compare(on, off, RUNS, 0.0)
        us = {"off_us": result.cpu_us / times, "on_us": result.device_us / times}
        measured.append({"name": name, **us, "ratio": result.ratio})
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "sanitizer.json")
    args = parser.parse_args()
    warnings.simplefilter("error")
    result: dict[str, Any] = {"machine": machine(), "rows": rows()}
    cells = [
        [row["name"], f"{row['off_us']:.2f}", f"{row['on_us']:.2f}", f"{row['ratio']:.2f}"]
        for row in result["rows"]
    ]
    print_table(["program", "off us", "on us", "ratio"], cells)
    write(args.output, result)


if __name__ == "__main__":
    main()
