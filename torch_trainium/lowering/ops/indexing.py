"""Elements chosen by indices."""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten.index_select)
def index_select(x: Builder, a: Value, dim: int, index: Value) -> Value:
    if a.rank == 0:
        return a
    index = x.reshape(index, [index.size])
    failed = (index < 0) | (index >= a.shape[x.dimension(a, dim)])
    x.check(failed, IndexError, "index out of range in self")
    return x.take(a, index, dim)
