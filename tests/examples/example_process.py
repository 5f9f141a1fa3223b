"""Runs an example as its user does: as a script, with the device loaded by `import torch`."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.python_process import ROOT, install_entry_point, run_python

EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Run:
    out: Path
    exit_code: int
    stdout: str
    stderr: str

    @property
    def losses(self) -> list[float]:
        with (self.out / "losses.csv").open(newline="") as file:
            return [float(row["loss"]) for row in csv.DictReader(file)]

    @property
    def summary(self) -> dict[str, Any]:
        figures: dict[str, Any] = json.loads((self.out / "summary.json").read_text())
        return figures


def attempt(script: str, out: Path, *options: object) -> Run:
    """Run examples/`script` with its results in `out`, whether or not it succeeds."""
    argv = [str(EXAMPLES / script), "--out", str(out), *map(str, options)]
    # The package need not be installed for PyTorch to find it: its entry point is enough.
    site = out.parent / "site"
    if not site.exists():
        install_entry_point(site, "torch-trainium", "torch_trainium._autoload:load")
    done = run_python(
        f"import runpy, sys; sys.argv = {argv!r}; runpy.run_path(sys.argv[0], run_name='__main__')",
        path=(site, EXAMPLES),
        timeout_seconds=600,
    )
    return Run(out, done.returncode, done.stdout, done.stderr)


def run(script: str, out: Path, *options: object) -> Run:
    """Run examples/`script`, which must succeed."""
    done = attempt(script, out, *options)
    assert done.exit_code == 0, f"exit {done.exit_code}\n{done.stdout}\n{done.stderr}"
    return done
