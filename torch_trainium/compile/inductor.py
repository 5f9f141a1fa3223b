"""What Inductor says where it is asked for on the device: that it has no code generator for it."""

from __future__ import annotations

from typing import Any

from torch_trainium.errors import UnsupportedOnNeuronError

MESSAGE = (
    "Inductor generates no code for neuron devices: use torch.compile(backend='neuron'), or leave "
    "`backend` out, which chooses it for neuron tensors"
)


class NoCodeGenerator:
    """Stands where a device has its scheduling and its wrapper; cannot be made."""

    supports_caching = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedOnNeuronError(MESSAGE)


def register() -> None:
    """Make Inductor refuse neuron tensors in these words, instead of with a KeyError."""
    from torch._inductor.codegen import common

    common.register_backend_for_device("neuron", NoCodeGenerator, NoCodeGenerator)  # type: ignore[arg-type]
