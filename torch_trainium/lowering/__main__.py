"""Command line: which operators run natively, and why the others do not."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from pathlib import Path

from torch_trainium.lowering import legality, table

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


def main() -> int:
    """Print the rows that match, or write the document."""
    parser = argparse.ArgumentParser(prog="python -m torch_trainium.lowering", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="overloads such as 'aten::add*'; all if none")
    parser.add_argument("--target", choices=legality.TARGETS, default="trn2")
    parser.add_argument("--fallbacks", action="store_true", help="only what is not native")
    parser.add_argument("--write", action="store_true", help="write docs/operators.md")
    options = parser.parse_args()
    if options.write:
        DOCUMENT.write_text(table.as_markdown(), encoding="utf-8")
        return 0
    for row in table.rows():
        if options.patterns and not any(fnmatch.fnmatch(row.name, p) for p in options.patterns):
            continue
        refusals = row.refusals(options.target) if row.kind == "operator" else []
        if options.fallbacks and not refusals:
            continue
        state = f"fallback: {'; '.join(refusals)}" if refusals else "native"
        print(f"{row.name:56} {row.origin or row.kind:14} {state}")
    counts = table.native(options.target)
    print(f"{options.target}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
