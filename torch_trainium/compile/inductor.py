"""What Inductor says where it is asked for on the device: that it has no code generator for it."""

from __future__ import annotations

from typing import Any, NoReturn

from torch_trainium.errors import UnsupportedOnNeuronError

DEVICE_TYPE = "neuron"
MESSAGE = (
    "Inductor generates no code for neuron devices: use torch.compile(backend='neuron'), or leave "
    "`backend` out, which chooses it for neuron tensors"
)


class NoCodeGenerator:
    """Stands where a device has its scheduling and its wrapper of generated code."""

    supports_caching = False

    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to be made.

        Raises:
            UnsupportedOnNeuronError: always.

        """
        raise UnsupportedOnNeuronError(MESSAGE)


def register() -> None:
    """Make Inductor refuse neuron tensors in these words, instead of with a KeyError."""
    from torch._inductor.codegen import common

    common.register_backend_for_device(DEVICE_TYPE, NoCodeGenerator, NoCodeGenerator)  # type: ignore[arg-type]
    common.register_device_op_overrides(DEVICE_TYPE, common.DeviceOpOverrides())
