"""Writes the C++ table of the cost class of every ATen operator.

Each row of the table is an initializer `{"aten::add.Tensor", CostClass::kPointwise},`; the
rows are in byte order of the names, so that a binary search finds them. The classes come
from hardware/data/operator_classes.toml, their C++ names from csrc/timeline/cost_class.h.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "torch_trainium" / "hardware" / "data" / "operator_classes.toml"
CLASSES = ROOT / "csrc" / "timeline" / "cost_class.h"


def enumerators() -> dict[str, str]:
    """The C++ name of each cost class by its name in the data file."""
    pairs = re.findall(r'_\((k\w+), "(\w+)"\)', CLASSES.read_text(encoding="utf-8"))
    return {text: name for name, text in pairs}


def rows() -> list[tuple[str, str]]:
    """Operators in byte order, each with the C++ name of its class.

    Raises:
        ValueError: the data file lists an operator twice or names an unknown class.

    """
    names = enumerators()
    classes: dict[str, str] = {}
    for cost_class, table in tomllib.loads(DATA.read_text(encoding="utf-8")).items():
        if cost_class not in names:
            raise ValueError(f"{DATA.name}: [{cost_class}] is no class of {CLASSES.name}")
        for operator in table["operators"]:
            if operator in classes:
                raise ValueError(f"{DATA.name}: {operator} is listed twice")
            classes[operator] = names[cost_class]
    return sorted(classes.items())


def write(path: Path) -> None:
    """Write the table as an initializer list, unless the file already holds it."""
    text = "".join(f'{{"{operator}", CostClass::{name}}},\n' for operator, name in rows())
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
