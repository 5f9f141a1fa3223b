"""What is simplified in a graph before it is cut into programs.

A pass is a function of a graph that changes it and leaves its results as they are, bit by bit. What
the compiler below would find as well is worth it where the cost model would charge for it.

common_subexpressions  the same operator on the same operands, once
casts                  conversions that change nothing
transpositions         permutations of permutations
dead_code              operators whose results nobody reads, as the others leave them
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from torch.fx import Graph

from torch_trainium.compile.passes.casts import casts
from torch_trainium.compile.passes.common_subexpressions import common_subexpressions
from torch_trainium.compile.passes.dead_code import dead_code
from torch_trainium.compile.passes.transpositions import transpositions

# In the order in which they run.
PASSES: Mapping[str, Callable[[Graph], None]] = {
    "casts": casts,
    "transpositions": transpositions,
    "common_subexpressions": common_subexpressions,
    "dead_code": dead_code,
}


def simplify(graph: Graph, chosen: Collection[str]) -> None:
    """Run the passes of these names."""
    for name, run in PASSES.items():
        if name in chosen:
            run(graph)
    graph.lint()
