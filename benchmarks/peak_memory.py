"""Peak host memory of training, over what importing PyTorch takes: one process, one device."""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATUS = Path("/proc/self/status")
STEPS = 5


def _status_bytes(key: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


def grown_bytes(program: str, device: str) -> int:
    """Peak resident bytes of STEPS steps less the resident bytes after the imports."""
    from models import PROGRAMS

    if device == "neuron":
        sys.path.insert(0, str(ROOT))
        importlib.import_module("torch_trainium")
    before = _status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again here
    step = PROGRAMS[program].step_on(device)
    for _ in range(STEPS):
        step().item()
    return _status_bytes("VmHWM") - before


def measured(program: str, device: str) -> int:
    """The same in a fresh process."""
    command = [sys.executable, __file__, "--program", program, "--device", device]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="gpt")
    parser.add_argument("--device", choices=["cpu", "neuron"], default="neuron")
    args = parser.parse_args()
    print(json.dumps(grown_bytes(args.program, args.device)))


if __name__ == "__main__":
    main()
