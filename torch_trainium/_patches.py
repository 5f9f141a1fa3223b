"""The functions of PyTorch that this package replaces, all of them, and why.

Each row is an upstream defect on external devices that no extension point reaches. A row
applies to the PyTorch minors it was verified on; on others the original stays.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from typing import Any

import torch
from torch.overrides import has_torch_function_unary

from torch_trainium.compile.after_import import after_import

VERIFIED_ON = ((2, 13), (2, 14))


@dataclass(frozen=True)
class Patch:
    """One replaced function: where it lives, why, and the function made from the original.

    Modules that `import torch` leaves out are patched once the program imports them.
    """

    owner: str
    name: str
    reason: str
    replace: Callable[[Callable[..., Any]], Callable[..., Any]]


def _dlpack_device(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def __dlpack_device__(self: torch.Tensor) -> Any:
        if has_torch_function_unary(self) or self.device.type != "neuron":
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        return DLDeviceType.kDLExtDev, self.device.index

    return __dlpack_device__


def _share_memory(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def share_memory_(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "neuron":
            from torch_trainium.neuron.sharing import refuse_sharing

            raise refuse_sharing("share_memory_() cannot move a neuron tensor to shared memory")
        return original(self, *args, **kwargs)

    return share_memory_


def _tensor_str(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def tensor_str(self: torch.Tensor, indent: int) -> Any:
        is_plain = type(self) in (torch.Tensor, torch.nn.Parameter)
        if is_plain and self.device.type == "neuron":
            self = self.detach().cpu()
        return original(self, indent)

    return tensor_str


def _validate_device(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != "neuron":
            original(query, key, value)

    return validate_device


def _comm(name: str) -> Patch:
    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        from torch_trainium.neuron import comm

        ours = getattr(comm, name)

        @wraps(original)
        def dispatch(*args: Any, **kwargs: Any) -> Any:
            tensors = args[0] if args else next(iter(kwargs.values()), ())
            return (original if _on_cuda(tensors) else ours)(*args, **kwargs)

        return dispatch

    return Patch(
        "torch.nn.parallel.comm",
        name,
        "nn.DataParallel works for any accelerator except here: these call CUDA's bindings, "
        "which other builds do not have",
        replace,
    )


def _on_cuda(tensors: Any) -> bool:
    if isinstance(tensors, torch.Tensor):
        return tensors.is_cuda
    return any(map(_on_cuda, tensors))


COMM_FUNCTIONS = (
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
)


PATCHES = (
    Patch(
        "torch.Tensor",
        "__dlpack_device__",
        'it compares the device type with "privateuse1", which is "neuron" after the renaming',
        _dlpack_device,
    ),
    Patch(
        "torch.UntypedStorage",
        "share_memory_",
        "it returns without sharing and without saying so",
        _share_memory,
    ),
    Patch(
        "torch._tensor_str",
        "_tensor_str",
        "it copies the tensors of devices with compilers to the CPU before it searches them for "
        "their largest digits in float64, by a list of names",
        _tensor_str,
    ),
    Patch(
        "torch.nn.attention.flex_attention",
        "_validate_device",
        "it knows the devices that may use flex_attention by a list of names",
        _validate_device,
    ),
    *map(_comm, COMM_FUNCTIONS),
)


def apply() -> None:
    """Install every patch, unless this PyTorch is one they were not verified on."""
    major, minor = torch.__version__.split(".")[:2]
    if (int(major), int(minor)) not in VERIFIED_ON:
        return
    for patch in PATCHES:
        if _module_of(patch.owner) in sys.modules:
            _install(patch)
    late = {_module_of(p.owner): p for p in PATCHES if _module_of(p.owner) not in sys.modules}
    after_import({module: partial(_install, patch) for module, patch in late.items()})


def _install(patch: Patch) -> None:
    owner = _resolve(patch.owner)
    setattr(owner, patch.name, patch.replace(getattr(owner, patch.name)))


def _module_of(path: str) -> str:
    module, _, attribute = path.rpartition(".")
    return module if attribute[0].isupper() else path


def _resolve(path: str) -> Any:
    module = import_module(_module_of(path))
    return module if module.__name__ == path else getattr(module, path.rpartition(".")[2])
