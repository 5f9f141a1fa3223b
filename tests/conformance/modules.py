"""The module database: every torch.nn module PyTorch has inputs for, in training and evaluation."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db

from .case import Case, Result, Skip
from .checks.gradients import gradients
from .differential import Differential
from .mirror import tensors_in

SUITE = "modules"
_INFOS = {info.name: info for info in module_db}


def _samples(info: Any, device: str, dtype: torch.dtype, training: bool) -> Iterator[Any]:
    """(module, positional, keyword) for every input in the database, on the device."""
    inputs = info.module_inputs_func(
        info, device=device, dtype=dtype, requires_grad=dtype.is_floating_point, training=training
    )
    for module_input in inputs:
        if module_input.forward_input is None:
            continue
        made, given = module_input.constructor_input, module_input.forward_input
        module = info.module_cls(*made.args, **made.kwargs).to(device=device, dtype=dtype)
        yield module.train(training), tuple(given.args), dict(given.kwargs)


def _forward(_: Any, sample: Any) -> Any:
    module, args, kwargs = sample
    return module(*args, **kwargs), list(module.named_buffers())


def _backward(_: Any, sample: Any) -> Any:
    module, args, kwargs = sample
    outputs = module(*args, **kwargs)
    leaves = [t for t in tensors_in((module, args, kwargs)) if t.requires_grad]
    return gradients(outputs, leaves)


def _noncontiguous(op: Any, sample: Any) -> Any:
    module, args, kwargs = sample
    args = tuple(_spread(value) for value in args)
    return _forward(op, (module, args, {name: _spread(value) for name, value in kwargs.items()}))


def _spread(value: Any) -> Any:
    """The same values with a gap between neighbours of the last dimension."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return value
    wide = value.new_zeros(*value.shape[:-1], 2 * value.shape[-1])
    spread = wide[..., ::2]
    return spread.copy_(value.detach()).requires_grad_(value.requires_grad)


def _channels_last(op: Any, sample: Any) -> Any:
    module, args, kwargs = sample
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if not any(isinstance(value, torch.Tensor) and value.dim() in formats for value in args):
        raise Skip("no image among the inputs")
    args = tuple(
        value.detach().to(memory_format=formats[value.dim()])
        if isinstance(value, torch.Tensor) and value.dim() in formats
        else value
        for value in args
    )
    return _forward(op, (module, args, kwargs))


def _state_dict(_: Any, sample: Any) -> Any:
    """A saved state loads into the module and keeps names, values and the module's device."""
    module, _args, _kwargs = sample
    if not module.state_dict():
        raise Skip("no state")
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    buffer.seek(0)
    state = torch.load(buffer)
    with torch.no_grad():
        for tensor in tensors_in(module):
            tensor.zero_()
    keys = module.load_state_dict(state)
    return list(keys.missing_keys), list(keys.unexpected_keys), dict(module.state_dict())


_PROBES: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "train": (_forward, True),
    "eval": (_forward, False),
    "backward_train": (_backward, True),
    "backward_eval": (_backward, False),
    "noncontiguous": (_noncontiguous, True),
    "channels_last": (_channels_last, True),
    "state_dict": (_state_dict, True),
}


def cases(device: str) -> Iterator[Case]:
    for name, info in _INFOS.items():
        for check, (_, training) in _PROBES.items():
            if training or info.train_and_eval_differ:
                for dtype in sorted(info.supported_dtypes(device), key=str):
                    yield Case(SUITE, name, check, str(dtype).removeprefix("torch."))


def run(case: Case, device: str, result: Result) -> None:
    info = _INFOS[case.name]
    probe, training = _PROBES[case.check]
    torch.manual_seed(0)
    samples = _samples(info, device, getattr(torch, case.dtype), training)
    Differential(result, device, info).run(samples, probe)
