"""Runs code in a fresh interpreter, for what can happen only once in a process."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ("TORCH_TRAINIUM_", "NEURON_", "TORCH_DEVICE_BACKEND_AUTOLOAD")


def run_python(
    code: str,
    environ: Mapping[str, str] | None = None,
    path: Iterable[Path] = (),
    options: Iterable[str] = (),
    timeout_seconds: float = 120,
) -> subprocess.CompletedProcess[str]:
    """The finished process that ran `code` with this checkout importable after `path`.

    Settings of this package in the caller's environment are not inherited.
    """
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
    inherited["PYTHONPATH"] = os.pathsep.join(map(str, (*path, ROOT)))
    return subprocess.run(
        [sys.executable, "-P", *options, "-c", code],
        env={**inherited, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )


def output_of(code: str, **arguments: object) -> str:
    """What `code` prints in a fresh interpreter, which must succeed."""
    done = run_python(code, **arguments)  # type: ignore[arg-type]
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def install_entry_point(folder: Path, distribution: str, target: str) -> Path:
    """Make `folder` look like a site directory with one PyTorch backend installed."""
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    name = target.partition(":")[0].replace(".", "_")
    (info / "entry_points.txt").write_text(f"[torch.backends]\n{name} = {target}\n")
    return folder
