"""What Dynamo and Inductor are told about the device, once a program has imported them.

Importing them takes longer than `import torch`, so nothing here does: each row of `ACTIONS` waits
for its module.
"""

from __future__ import annotations

from typing import Any

from torch_trainium.compile.after_import import after_import

BACKEND = "neuron"


def register() -> None:
    """Have Dynamo find the device, its backend and the router between backends."""
    after_import(ACTIONS)


def _register_backends() -> None:
    from torch._dynamo.backends import registry

    # Also where the package is not installed, so that it has no entry points.
    registry.register_backend(_neuron, name=BACKEND)
    if registry.get_default_backend() == "inductor":
        registry.set_default_backend(_by_device)


def _register_interface() -> None:
    from torch_trainium.compile import device_interface

    device_interface.register()


def _refuse_inductor() -> None:
    from torch_trainium.compile import inductor

    inductor.register()


def _register_flex_autocast() -> None:
    from torch_trainium.compile import flex_autocast

    flex_autocast.register()


def _register_artifacts() -> None:
    from torch_trainium.compile import artifacts  # noqa: F401 - importing it registers them


def _neuron(graph: Any, example_inputs: Any, **kwargs: Any) -> Any:
    from torch_trainium.compile import backend

    return backend.neuron(graph, example_inputs, **kwargs)


def _by_device(graph: Any, example_inputs: Any, **kwargs: Any) -> Any:
    from torch_trainium.compile import router

    return router.by_device(graph, example_inputs, **kwargs)


_neuron.__name__ = BACKEND
_by_device.__name__ = "neuron_or_inductor"

ACTIONS = {
    "torch._dynamo.backends.registry": _register_backends,
    "torch._dynamo.device_interface": _register_interface,
    "torch._inductor.codegen.common": _refuse_inductor,
    "torch._functorch._aot_autograd.autograd_cache": _register_artifacts,
    "torch._higher_order_ops.flex_attention": _register_flex_autocast,
}
