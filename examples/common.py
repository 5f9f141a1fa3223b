"""What the examples share: options, checkpoints, the loss curve and the closing summary."""

import argparse
import csv
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any, Protocol

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch


class Stateful(Protocol):
    """A module, an optimizer or a learning-rate schedule."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


def option_parser(description: str | None, out: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--device", type=torch.device, default="cpu", help="neuron or cpu")
    parser.add_argument("--amp", choices=["bf16"], help="autocast to this type")
    parser.add_argument("--seed", type=int, default=0, help="of the model and of the data order")
    parser.add_argument("--out", type=Path, default=Path(out), help="folder for all results")
    return parser


def add_resume(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--resume", action="store_true", help="continue from OUT/checkpoint.pt")


def autocast(args: argparse.Namespace) -> torch.autocast:
    return torch.autocast(args.device.type, torch.bfloat16, enabled=args.amp == "bf16")


def save_checkpoint(
    path: Path, losses: list[float], order: torch.Generator, **parts: Stateful
) -> None:
    """Replace the file at once: a crash leaves the old checkpoint or the new one, never half."""
    state = {name: part.state_dict() for name, part in parts.items()}
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        torch.save({"losses": losses, "order": order.get_state(), **state}, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load_checkpoint(path: Path, order: torch.Generator, **parts: Stateful) -> list[float]:
    """Restore `order` and every part in place; returns the losses so far."""
    if not path.exists():
        sys.exit(f"--resume: there is no checkpoint {path}; run without --resume first")
    state = torch.load(path, map_location="cpu", weights_only=True)
    order.set_state(state["order"])
    for name, part in parts.items():
        part.load_state_dict(state[name])
    losses: list[float] = state["losses"]
    return losses


def write_losses(out: Path, losses: list[float], title: str) -> None:
    """Write losses.csv, whose repr() keeps every bit of the numbers, and loss.png."""
    with (out / "losses.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["step", "loss"])
        rows.writerows((step, repr(loss)) for step, loss in enumerate(losses))
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(losses, linewidth=1)
    axes.set(title=title, xlabel="step", ylabel="training loss (nats)")
    axes.grid(alpha=0.3)
    figure.savefig(out / "loss.png", dpi=120)
    plt.close(figure)


def write_summary(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Print `figures` with the memory and operator counts; write them to summary.json."""
    figures = {"device": str(args.device), **figures}
    if args.device.type == "cpu":
        # Linux counts ru_maxrss in KiB.
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        figures["process_peak_mib"] = round(peak_bytes / 2**20, 1)
    else:
        peak_bytes = torch.accelerator.max_memory_allocated(args.device)
        figures["device_peak_mib"] = round(peak_bytes / 2**20, 1)
    if args.device.type == "neuron":
        executed = torch.get_device_module(args.device).executed_ops()
        figures["ops_executed"] = sum(executed.values())
        figures["distinct_ops"] = len(executed)
    figures["results"] = str(args.out)
    (args.out / "summary.json").write_text(json.dumps(figures, indent=2) + "\n")
    print("\nsummary")
    for name, value in figures.items():
        print(f"  {name.replace('_', ' '):<32}{value}")
