"""The cost class of every ATen operator, from data/operator_classes.toml."""

import tomllib
from functools import cache

from torch_trainium.hardware.facts import DATA

# The compiler knows no operator but the listed ones.
CLASS_OF_UNLISTED = "cpu_fallback"


@cache
def operators_by_class() -> dict[str, tuple[str, ...]]:
    """The operators of each cost class, such as "aten::add.Tensor" of "pointwise"."""
    tables = tomllib.loads((DATA / "operator_classes.toml").read_text(encoding="utf-8"))
    return {name: tuple(table["operators"]) for name, table in tables.items()}


@cache
def _classes() -> dict[str, str]:
    return {
        operator: name for name, operators in operators_by_class().items() for operator in operators
    }


def cost_class_of(qualified_name: str) -> str:
    """The cost class of an operator, "cpu_fallback" for one that is not listed.

    `qualified_name` is "aten::add.Tensor", or "aten::relu" where the overload has no name.
    """
    return _classes().get(qualified_name, CLASS_OF_UNLISTED)


def is_listed(qualified_name: str) -> bool:
    """Whether the data file gives the operator a class."""
    return qualified_name in _classes()
