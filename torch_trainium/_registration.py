"""Makes "neuron" a device of this PyTorch: everything, or nothing and an ImportError."""

import atexit
import sys
from contextlib import suppress
from dataclasses import asdict

import torch
from torch.utils import backend_registration

from torch_trainium import config
from torch_trainium.errors import (
    BackendConflictError,
    CompilerUnavailableError,
    UnsupportedTorchError,
)

DEVICE_TYPE = "neuron"
SUPPORTED = ">=2.13,<2.15"
UNCLAIMED = "privateuseone"


def register() -> None:
    """Load the extension, take PyTorch's external device and install `torch.neuron`.

    Touches no device: the runtime starts on first use.

    Raises:
        UnsupportedTorchError: this PyTorch, or the one the extension was built for.
        BackendConflictError: another backend is registered.

    """
    check_torch_version(torch.__version__)
    if name := registered_backend():
        raise BackendConflictError(
            f"torch-trainium cannot be used in this process: another backend has registered the "
            f"device '{name}' and PyTorch holds one. Uninstall it, or start Python with "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import torch_trainium only."
        )
    _load_extension()
    from torch_trainium import _patches, neuron
    from torch_trainium.compile import registration

    backend_registration.rename_privateuse1_backend(DEVICE_TYPE)
    torch._register_device_module(DEVICE_TYPE, neuron)  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    _alias_submodules()
    _patches.apply()
    # Backward passes run on the thread that calls them, in one order: autograd's threads, one a
    # device, would share the devices' timelines in an order that changes from run to run.
    torch.autograd.set_multithreading_enabled(False)
    neuron.sharing.register_reducer()
    _configure()
    registration.register()
    neuron.observe._start_op_log_if_asked()
    neuron.stream_sanitizer._start_if_asked()


def registered_backend() -> str:
    """The name under which a backend has taken PyTorch's external device or its module, if any."""
    name = torch._C._get_privateuse1_backend_name()
    if name != UNCLAIMED or hasattr(torch, UNCLAIMED):
        return name
    # Packages of the vendor's first generation claim the module without the device.
    return DEVICE_TYPE if hasattr(torch, DEVICE_TYPE) else ""


def check_torch_version(version: str) -> None:
    """Raise UnsupportedTorchError unless `version` is a PyTorch this release works with."""
    minor = _minor(version)
    if not (2, 13) <= minor < (2, 15):
        raise UnsupportedTorchError(
            f"torch-trainium needs torch{SUPPORTED} and found {version}. "
            f"Install a supported release: pip install 'torch{SUPPORTED}'"
        )


def check_built_for(built_for: str, version: str) -> None:
    """Raise UnsupportedTorchError unless an extension built for `built_for` serves `version`."""
    if _minor(built_for) != _minor(version):
        raise UnsupportedTorchError(
            f"torch-trainium was built for torch {built_for} and found {version}. "
            "Reinstall torch-trainium in this environment, or install that torch."
        )


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split("+")[0].split(".")[:2]
    return int(major), int(minor)


def _load_extension() -> None:
    try:
        from torch_trainium import _C
    except ImportError as error:
        raise UnsupportedTorchError(
            f"torch-trainium's extension does not load with torch {torch.__version__}: {error}. "
            "It has to be built in this environment, for this torch: reinstall torch-trainium."
        ) from error
    check_built_for(_C.built_for_torch, torch.__version__)


def _alias_submodules() -> None:
    """Let `import torch.neuron.memory` find the module that `torch.neuron` already has.

    Without the alias Python would load the file a second time under the other name.
    """
    ours = f"{__package__}.{DEVICE_TYPE}."
    for name, module in list(sys.modules.items()):
        if name.startswith(ours):
            sys.modules[f"torch.{DEVICE_TYPE}.{name.removeprefix(ours)}"] = module


def _configure() -> None:
    from torch_trainium import _C, neuron

    settings = config.current()
    config.configure_logging()
    if settings.machine is None:
        # A bad variable must not break `import torch`: the device says it on first use.
        _C.set_unavailable_reason(settings.error)
    else:
        _C.configure_machine(asdict(settings.machine))
    # Also without a machine: `torch.neuron.set_instance` may choose one.
    _C.timeline.set_timing_provider(_timing_model)
    neuron.cpu_fallbacks._start()
    if settings["TORCH_TRAINIUM_EAGER"] == "compiled":
        from torch_trainium import eager

        with suppress(CompilerUnavailableError):  # the first operator says it
            eager.set_eager_mode("compiled")
    atexit.register(neuron.startup.stop_autograd)


def _timing_model() -> tuple[int, dict[str, float], str, dict[str, float]]:
    """Devices a chip, the constants of the emulated core, and the software profile's overheads."""
    from torch_trainium.hardware import chips, costs

    settings = config.current()
    machine = settings.machine
    assert machine is not None  # else no device would have been configured
    devices_per_chip = chips()[machine.chip].physical_cores // machine.logical_core_size
    constants = costs.constants(machine.chip, machine.logical_core_size)
    profile = costs.profile(settings["TORCH_TRAINIUM_PROFILE"], machine.chip)
    return devices_per_chip, constants, profile.name, profile.overheads_us()
