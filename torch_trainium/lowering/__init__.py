"""ATen to StableHLO: the registry of lowerings and the builder they are written with.

registry       `@lower`, and the table of what is registered
pointwise      `@pointwise`, for elementwise operators
builder        what a lowering writes StableHLO with
values         arrays and numbers in a program
promotion      PyTorch's type promotion
dispatch       from an operator to its lowering, functional form or decomposition
decompose      PyTorch's decompositions
windows        strided tensors as part of a program
program        a whole program for one operator
ops/           the lowerings, one file per family
"""

from torch_trainium.lowering.registry import Lowering, lower

__all__ = ["Lowering", "lower"]
