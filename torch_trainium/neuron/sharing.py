"""Neuron tensors and other processes: what cannot be shared says so, and what to do."""

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_storage

from torch_trainium.errors import ProcessSharingError

REMEDY = (
    "Send tensor.cpu() and move it to the device in the process that receives it, or create "
    "the tensor there."
)


def refuse_sharing(what: str) -> ProcessSharingError:
    """The error for `what`, with the remedy."""
    return ProcessSharingError(
        f"{what}: the memory of a neuron device belongs to one process. {REMEDY}"
    )


def _reduce_storage(storage: torch.UntypedStorage) -> Any:
    # PyTorch's own reducer would treat the device address as shared host memory.
    if storage.device.type == "neuron":
        raise refuse_sharing("A neuron tensor cannot be sent to another process")
    return reduce_storage(storage)  # type: ignore[no-untyped-call]


def register_reducer() -> None:
    """Make multiprocessing refuse neuron tensors, whatever object holds them."""
    ForkingPickler.register(torch.UntypedStorage, _reduce_storage)
