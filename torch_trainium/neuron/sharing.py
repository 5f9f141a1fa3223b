"""Neuron tensors and other processes: what cannot be shared says so, and what to do."""

import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_storage

from torch_trainium.errors import ProcessSharingError

# multiprocessing.Queue pickles in a thread of this name.
FEEDER_THREAD = "QueueFeederThread"
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
    if storage.device.type != "neuron":
        return reduce_storage(storage)  # type: ignore[no-untyped-call]
    # PyTorch's own reducer would treat the device address as shared host memory.
    error = refuse_sharing("A neuron tensor cannot be sent to another process")
    if threading.current_thread().name == FEEDER_THREAD:
        # Raised here it would be printed, and whoever waits for the object would wait for ever.
        return _raise_on_arrival, (str(error),)
    raise error


def _raise_on_arrival(message: str) -> None:
    raise ProcessSharingError(message)


def register_reducer() -> None:
    """Make multiprocessing refuse neuron tensors, whatever object holds them."""
    ForkingPickler.register(torch.UntypedStorage, _reduce_storage)
