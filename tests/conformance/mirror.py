"""Copies the arguments of a call to another device as they are.

`Tensor.to` makes strides dense, drops the base of a view and resolves conjugation. A comparison
between devices needs the same arguments on both, so storages are copied byte by byte and every
tensor is laid over its copy with its own offset and strides.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor
from torch.testing._internal.opinfo.core import SampleInput


class Mirror:
    """Callable that maps a tree of arguments from the device `source` to `target`."""

    def __init__(self, source: str, target: str) -> None:
        self.source = torch.device(source).type
        self.target = target
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._shared(value)
        if isinstance(value, SampleInput):
            return SampleInput(
                self(value.input),
                args=self(value.args),
                kwargs=self(value.kwargs),
                output_process_fn_grad=value.output_process_fn_grad,
                broadcasts_input=value.broadcasts_input,
                name=value.name,
            )
        if isinstance(value, Mapping):
            return type(value)((key, self(item)) for key, item in value.items())  # type: ignore[call-arg]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if type(value) in (tuple, list):
            return type(value)(map(self, value))
        if isinstance(value, torch.nn.Module):
            return copy.deepcopy(value).to(self.target)
        if isinstance(value, torch.Generator):
            return torch.Generator(self.target).manual_seed(value.initial_seed())
        if isinstance(value, torch.device) and value.type == self.source:
            return torch.device(self.target)
        if isinstance(value, str) and value.partition(":")[0] == self.source:
            return self.target
        return value

    def _shared(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != self.source:
            return tensor
        # The original is kept alive beside its copy, so that its id is not given to another.
        kept = self._tensors.get(id(tensor))
        if kept is None:
            kept = (tensor, self._copy(tensor))
            self._tensors[id(tensor)] = kept
        return kept[1]

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        plain = tensor.detach()
        if isinstance(plain, NestedTensor):
            # Ragged sizes are equal only where the offsets are the same tensor.
            copied = NestedTensor(
                self(plain._values),
                self(plain._offsets),
                lengths=self(plain._lengths),
                _ragged_idx=plain._ragged_idx,
                _metadata_cache=self(plain._metadata_cache),
            )
        elif plain.layout is not torch.strided or plain.is_nested or is_wrapper(tensor):
            copied = plain.to(self.target, copy=True)
        elif plain.is_conj():
            copied = self._copy(plain.conj()).conj()
        elif plain.is_neg():
            copied = self._copy(plain._neg_view())._neg_view()
        else:
            copied = torch.empty(0, dtype=plain.dtype, device=self.target)
            storage = self._storage(plain.untyped_storage())
            copied.set_(storage, plain.storage_offset(), plain.size(), plain.stride())
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(copied, requires_grad=tensor.requires_grad)
        return copied.requires_grad_(tensor.requires_grad)

    def _storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        copied = self._storages.get(storage._cdata)
        if copied is None:
            size = (storage.nbytes(),)
            content = torch.empty(0, dtype=torch.uint8, device=storage.device)
            content.set_(storage, 0, size, (1,))
            copied = content.to(self.target, copy=True).untyped_storage()
            self._storages[storage._cdata] = copied
        return copied


def is_wrapper(tensor: torch.Tensor) -> bool:
    return type(tensor) not in (torch.Tensor, torch.nn.Parameter)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in a tree of arguments, in the order of the arguments."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, torch.nn.Module):
        return [*value.parameters(), *value.buffers()]
    if isinstance(value, SampleInput):
        return tensors_in((value.input, value.args, value.kwargs))
    if isinstance(value, Mapping):
        return tensors_in(tuple(value.values()))
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
