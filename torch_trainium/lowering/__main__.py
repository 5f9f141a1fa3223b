"""Command line: which operators run natively, and why the others do not."""

from __future__ import annotations

import argparse
import fnmatch
import sys

from torch_trainium.lowering import legality, table, written


def main() -> int:
    """Print the rows that match, or write or check the generated files."""
    parser = argparse.ArgumentParser(prog="python -m torch_trainium.lowering", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="overloads such as 'aten::add*'; all if none")
    parser.add_argument("--target", choices=legality.TARGETS, default=legality.TARGETS[0])
    parser.add_argument("--fallbacks", action="store_true", help="only what is not all native")
    parser.add_argument(
        "--write", action="store_true", help="write docs/operators.md and the table C++ reads"
    )
    parser.add_argument("--check", action="store_true", help="fail unless these are current")
    options = parser.parse_args()
    if options.write:
        for path, text in written.files_to_write().items():
            path.write_text(text, encoding="utf-8")
        return 0
    if options.check:
        outdated = written.outdated()
        for path in outdated:
            print(f"{path} is not current: run python -m torch_trainium.lowering --write")
        return 1 if outdated else 0
    for row in table.rows():
        if options.patterns and not any(fnmatch.fnmatch(row.name, p) for p in options.patterns):
            continue
        state = row.state(options.target)
        if options.fallbacks and state == "native":
            continue
        print(f"{row.name:56} {row.origin or row.kind:14} {state}")
    counted = table.counts(options.target)
    print(f"{options.target}: " + ", ".join(f"{n} {name}" for name, n in sorted(counted.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
