"""Embeddings and bags of them, with gradients."""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten.embedding)
def embedding(
    x: Builder, weight: Value, indices: Value, padding_idx: int, scale: bool, sparse: bool
) -> Value:
    x.check((indices < 0) | (indices >= weight.shape[0]), IndexError, "index out of range in self")
    return x.take(weight, indices)
