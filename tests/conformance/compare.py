"""Compares what a device returned with what the CPU returned.

Everything a program can see must agree: values within PyTorch's own tolerances, and dtype, shape,
strides, layout and lazy conjugation exactly. Agreement of every bit is recorded besides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

_COMPRESSED_ROWS = (torch.sparse_csr, torch.sparse_bsr)
_COMPRESSED = (*_COMPRESSED_ROWS, torch.sparse_csc, torch.sparse_bsc)


class Comparison:
    """Accumulates differences between two trees; `values=False` compares all but the values."""

    def __init__(self, device: str, *, values: bool = True) -> None:
        self.device_type = torch.device(device).type
        self.values = values
        self.problems: list[str] = []
        self.bit_equal = True

    def compare(self, actual: Any, expected: Any, where: str = "result") -> Comparison:
        if isinstance(expected, torch.Tensor):
            self._tensor(actual, expected, where)
        elif type(actual) is not type(expected):
            self._differ(where, f"a {type(actual).__name__}, not a {type(expected).__name__}")
        elif isinstance(expected, Mapping):
            if list(actual) != list(expected):
                self._differ(where, f"keys {list(actual)}, not {list(expected)}")
            for key in (key for key in expected if key in actual):
                self.compare(actual[key], expected[key], f"{where}[{key!r}]")
        elif isinstance(expected, (tuple, list)):
            if len(actual) != len(expected):
                self._differ(where, f"{len(actual)} items, not {len(expected)}")
            for index, (left, right) in enumerate(zip(actual, expected, strict=False)):
                self.compare(left, right, f"{where}[{index}]")
        elif self.values:
            self._scalar(actual, expected, where)
        return self

    def _differ(self, where: str, what: str) -> None:
        self.bit_equal = False
        self.problems.append(f"{where}: {what}")

    def _scalar(self, actual: Any, expected: Any, where: str) -> None:
        if isinstance(expected, (float, complex)):
            try:
                torch.testing.assert_close(actual, expected, equal_nan=True)
            except AssertionError as error:
                self._differ(where, str(error))
            self.bit_equal &= repr(actual) == repr(expected)
        elif isinstance(expected, torch.device):
            if expected.type == "cpu" and actual.type not in (self.device_type, "cpu"):
                self._differ(where, f"{actual}, not {expected}")
        elif isinstance(expected, torch.Generator) or expected is None:
            return
        elif actual is not expected and actual != expected:
            self._differ(where, f"{actual!r}, not {expected!r}")

    def _tensor(self, actual: Any, expected: torch.Tensor, where: str) -> None:
        if actual is expected:
            return
        if type(actual) is not type(expected):
            self._differ(where, f"a {type(actual).__name__}, not a {type(expected).__name__}")
            return
        before = len(self.problems)
        device_type = self.device_type if expected.device.type == "cpu" else expected.device.type
        if actual.device.type != device_type:
            self._differ(where, f"on {actual.device}, not on {device_type}")
        for attribute in ("dtype", "layout", "requires_grad", "is_nested"):
            self._attribute(actual, expected, attribute, where)
        if len(self.problems) > before:
            return
        if expected.is_nested:
            self.compare(actual.unbind(), expected.unbind(), f"{where}.unbind()")
            return
        self._attribute(actual, expected, "shape", where)
        if len(self.problems) > before:
            return
        if expected.layout is torch.strided:
            self._strided(actual, expected, where)
        else:
            self._sparse(actual.detach(), expected.detach(), where)

    def _attribute(self, actual: Any, expected: Any, attribute: str, where: str) -> None:
        left, right = getattr(actual, attribute), getattr(expected, attribute)
        if left != right:
            self._differ(f"{where}.{attribute}", f"{left}, not {right}")

    def _sparse(self, actual: torch.Tensor, expected: torch.Tensor, where: str) -> None:
        if expected.layout is torch.sparse_coo:
            parts = ["is_coalesced", "_indices", "_values"]
        elif expected.layout in _COMPRESSED_ROWS:
            parts = ["crow_indices", "col_indices", "values"]
        elif expected.layout in _COMPRESSED:
            parts = ["ccol_indices", "row_indices", "values"]
        else:
            self.compare(actual.to_dense(), expected.to_dense(), f"{where}.to_dense()")
            return
        for part in parts:
            self.compare(getattr(actual, part)(), getattr(expected, part)(), f"{where}.{part}()")

    def _strided(self, actual: torch.Tensor, expected: torch.Tensor, where: str) -> None:
        if _significant_strides(actual) != _significant_strides(expected):
            self._differ(f"{where}.stride", f"{actual.stride()}, not {expected.stride()}")
        self._lazy(actual, expected, where)
        if not self.values or expected.device.type == "meta":
            return
        left, right = _plain(actual.detach().cpu()), _plain(expected.detach())
        if same_bits(left, right):
            return
        self.bit_equal = False
        if left.dtype.is_floating_point and left.dtype.itemsize == 1:
            left, right = left.float(), right.float()
        try:
            torch.testing.assert_close(left, right, equal_nan=True, check_stride=False)
        except AssertionError as error:
            self._not_close(left, right, where, " ".join(str(error).split()))

    def _lazy(self, actual: torch.Tensor, expected: torch.Tensor, where: str) -> None:
        if actual.is_conj() != expected.is_conj() or actual.is_neg() != expected.is_neg():
            self._differ(where, "another conjugate or negative bit")

    def _not_close(
        self, actual: torch.Tensor, expected: torch.Tensor, where: str, message: str
    ) -> None:
        """Two CPU tensors of one dtype and shape are not close: a problem, unless overridden."""
        self.problems.append(f"{where}: {message}")


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in memory, with nothing left to do lazily."""
    tensor = tensor.clone() if tensor._is_zerotensor() else tensor
    return tensor.resolve_conj().resolve_neg()


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two CPU tensors of one shape and dtype hold the same bytes."""
    return torch.equal(_bytes(left), _bytes(right))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    # A contiguous tensor may still have odd strides in dimensions of size one.
    return tensor.contiguous().as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def _significant_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions along which a step can be taken."""
    if math.prod(tensor.shape) == 0:
        return ()
    return tuple(
        stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1
    )
