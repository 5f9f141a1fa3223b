"""Arguments that decide whether a chip takes an operator's program.

Proofs of these overloads are kept, and calls of them are classified, by what the argument is: an
accumulating `index_put` combines elements, and one that only places them does not.
"""

from __future__ import annotations

from typing import Any

# By functional overload; forms that write have the argument too, under the same name.
DECIDING_ARGUMENTS = {
    **dict.fromkeys(
        ("aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index_put", "aten::put"),
        "accumulate",
    ),
    **dict.fromkeys(
        (
            "aten::index_reduce",
            "aten::scatter.reduce",
            "aten::scatter.value_reduce",
            "aten::scatter_reduce.two",
        ),
        "reduce",
    ),
}


def use_of(overload: str, arguments: dict[str, Any]) -> str:
    """What a call uses a functional overload for, such as "accumulate=True".

    Args:
        overload: its qualified name.
        arguments: by the schema's names, defaults filled in.

    Returns:
        The deciding argument, or "" where none decides.

    """
    name = DECIDING_ARGUMENTS.get(overload)
    return f"{name}={arguments[name]}" if name else ""
