"""The builder that lowerings get: everything StableHLO offers, and other operators of PyTorch."""

from __future__ import annotations

from typing import Any

from torch_trainium.lowering import dispatch
from torch_trainium.lowering.indexing import Indexing
from torch_trainium.lowering.values import Value


class Builder(Indexing):
    """A program under construction.

    Its methods stand in files by what they do: `core` (constants, arguments, checks),
    `elementwise`, `shapes`, `reductions`, `contractions`, `indexing`.
    """

    def call(self, overload: Any, *args: Any, **kwargs: Any) -> Value:
        """What another operator with one result gives: `x.call(aten.sum.dim_IntList, a, [0])`."""
        result: Value = dispatch.lower_call(self, overload, args, kwargs)
        return result

    def call_all(self, overload: Any, *args: Any, **kwargs: Any) -> list[Value]:
        """The results of another operator that has several."""
        return list(dispatch.lower_call(self, overload, args, kwargs))
