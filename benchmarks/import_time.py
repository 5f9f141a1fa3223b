"""Seconds that the package adds to `import torch`: fresh processes, interleaved, medians."""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from results import RESULTS, machine, print_table, write

ROOT = Path(__file__).resolve().parent.parent
BAR_MS = 150.0
# The clock starts after the interpreter's own start-up.
CODE = "import time; t = time.perf_counter(); import torch{}; print(time.perf_counter() - t)"


def import_ms(package: str) -> float:
    environ = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-c", CODE.format(package)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return float(done.stdout) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--check", action="store_true", help="exit with 1 where the bar is missed")
    parser.add_argument("--output", type=Path, default=RESULTS / "import_time.json")
    args = parser.parse_args()
    import_ms(", torch_trainium")  # byte code and the page cache
    pairs = [(import_ms(", torch_trainium"), import_ms("")) for _ in range(args.runs)]
    added = statistics.median(both - alone for both, alone in pairs)
    result = {
        "machine": machine(),
        "torch_ms": round(statistics.median(alone for _, alone in pairs), 1),
        "both_ms": round(statistics.median(both for both, _ in pairs), 1),
        "added_ms": round(added, 1),
        "bar_ms": BAR_MS,
    }
    write(args.output, result)
    verdict = "ok" if added <= BAR_MS else "MISSED"
    cells = [f"{result[key]:.0f}" for key in ("torch_ms", "both_ms", "added_ms", "bar_ms")]
    header = ["measure", "import torch ms", "with package ms", "added ms", "bar ms", ""]
    print_table(header, [["import", *cells, verdict]])
    return int(args.check and added > BAR_MS)


if __name__ == "__main__":
    sys.exit(main())
