"""What `import torch` runs, and what `import torch_trainium` adds to it.

PyTorch calls `load` at the end of `import torch`, for every package installed in its entry
point group. An exception there would break the user's `import torch`, and a second backend
in the process breaks the first: so `load` raises nothing and gives way to others. For the
same reason this module imports nothing of ours before `load` can catch what goes wrong.
"""

import logging
import os
import sys
import warnings
from dataclasses import dataclass
from typing import Literal

PACKAGE = "torch_trainium"
ENTRY_POINT_GROUP = "torch.backends"

State = Literal["not run", "active", "stood back", "disabled", "failed"]


@dataclass(frozen=True)
class AutoloadStatus:
    """Whether the neuron device is there, and why."""

    state: State
    reason: str

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}"


_status = AutoloadStatus("not run", "TORCH_DEVICE_BACKEND_AUTOLOAD=0, or PyTorch did not call it")
_activating = False


def autoload_status() -> AutoloadStatus:
    """Whether the neuron device is active in this process, and why it is or is not."""
    return _status


def imported_by_torch() -> bool:
    """Whether PyTorch itself is importing this package, to call `load`.

    Then torch is in `sys.modules` and not finished; it is neither there before the user's
    own `import torch_trainium`, nor unfinished after `import torch`.
    """
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def load() -> None:
    """Make the neuron device available if it disturbs nobody. Raises nothing."""
    if _activating or _active():
        return
    try:
        _load()
    except Exception as error:  # noqa: BLE001 - `import torch` must survive whatever this is
        _report("failed", f"{type(error).__name__}: {error}")
        _warn(
            f"torch-trainium is installed but the neuron device is not available: {error}",
            RuntimeWarning,
        )
    if not _active():
        # The user's own `import torch_trainium` has to run the package again, to activate
        # the device or to raise what is wrong.
        sys.modules.pop(PACKAGE, None)


def activate() -> None:
    """Make the neuron device available because the user imported this package.

    Raises:
        ImportError: PyTorch is not supported, the extension is not built for it, or another
            backend has taken the one place PyTorch has for an external device.

    """
    global _activating
    from torch_trainium import config

    if _active():
        return
    if config.current()["TORCH_TRAINIUM_ENABLE"] is False:
        _report("disabled", "TORCH_TRAINIUM_ENABLE=0")
        return
    before = _status
    _activating = True
    try:
        import torch  # noqa: F401 - calls `load`, which leaves the work to us

        from torch_trainium import _registration

        _registration.register()
    finally:
        _activating = False
    _warn_of_settings()
    aside = f" (autoload {before.state}: {before.reason})" if before.state != "not run" else ""
    _report("active", f"imported by the program{aside}")


def _load() -> None:
    from torch_trainium import config

    config.configure_logging()
    enable = config.current()["TORCH_TRAINIUM_ENABLE"]
    if enable is False:
        _report("disabled", "TORCH_TRAINIUM_ENABLE=0")
        return
    if enable is None and (reason := reason_to_stand_back()):
        _report("stood back", reason)
        return
    from torch_trainium import _registration

    _registration.register()
    _warn_of_settings()
    _report("active", "TORCH_TRAINIUM_ENABLE=1" if enable else "loaded by PyTorch")


def reason_to_stand_back() -> str:
    """Who else in this process or environment is an accelerator; empty where nobody is."""
    if reason := _registered_backend():
        return reason
    if reason := _other_accelerator() or _installed_backend():
        return f"{reason}; TORCH_TRAINIUM_ENABLE=1 makes the neuron device available nevertheless"
    return ""


def _registered_backend() -> str:
    from torch_trainium import _registration

    name = _registration.registered_backend()
    return f"another backend has registered the device '{name}'" if name else ""


def _other_accelerator() -> str:
    import torch

    found = torch.accelerator.current_accelerator()
    if found is None:
        return ""
    # Asking the CUDA runtime would make this process unable to fork: NVML is asked instead.
    if found.type == "cuda":
        present = _gpu_count_without_runtime() > 0
    else:
        present = torch.accelerator.is_available()
    return f"this process has the accelerator '{found.type}'" if present else ""


def _gpu_count_without_runtime() -> int:
    import torch

    if torch.version.hip:
        return int(torch.cuda._device_count_amdsmi())
    return int(torch.cuda._device_count_nvml())


def _installed_backend() -> str:
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        if entry_point.module.partition(".")[0] != PACKAGE:
            owner = entry_point.dist.name if entry_point.dist else entry_point.module
            return f"the distribution '{owner}' installs another PyTorch backend"
    return ""


def _active() -> bool:
    return _status.state == "active"


def _report(state: State, reason: str) -> None:
    global _status
    _status = AutoloadStatus(state, reason)
    logging.getLogger(PACKAGE).info("%s", _status)


def _warn_of_settings() -> None:
    from torch_trainium import config
    from torch_trainium.errors import ConfigurationWarning

    unknown = config.unknown_variables(os.environ)
    for sentence in (*unknown, *config.hidden_cores(config.current())):
        _warn(sentence, ConfigurationWarning)


def _warn(message: str, category: type[Warning]) -> None:
    try:
        warnings.warn(message, category, stacklevel=2)
    except category:
        # Under -W error the warning would be an exception, which `import torch` must not see.
        logging.getLogger(PACKAGE).error("%s", message)
