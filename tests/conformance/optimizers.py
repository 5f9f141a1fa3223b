"""The optimizer database: every configuration of every implementation, step by step."""

from __future__ import annotations

import copy
import functools
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.testing._internal.common_optimizers import optim_db

from .case import Case, Result, Skip
from .compare import Comparison
from .outcome import observe

SUITE = "optimizers"
STEPS = 5
_SHAPES = ((3, 4), (4, 5), (2, 2, 3), (1, 1))
_INFOS = {info.name: info for info in optim_db}

# Implementation: arguments on the device, arguments of the CPU's reference.
_IMPLEMENTATIONS: dict[str, tuple[dict[str, bool], dict[str, bool]]] = {
    "default": ({}, {}),
    "forloop": ({"foreach": False}, {"foreach": False}),
    "foreach": ({"foreach": True}, {"foreach": True}),
    "fused": ({"fused": True}, {"fused": True}),
    "capturable": ({"foreach": False, "capturable": True}, {"foreach": False, "capturable": True}),
    "capturable_foreach": (
        {"foreach": True, "capturable": True},
        {"foreach": True, "capturable": True},
    ),
    "differentiable": ({"differentiable": True}, {"differentiable": True}),
}


def _implementations(info: Any) -> Iterator[str]:
    yield "default"
    if "foreach" in info.supported_impls:
        yield from ("forloop", "foreach")
    yield from (name for name in ("fused", "differentiable") if name in info.supported_impls)
    if info.has_capturable_arg:
        yield "capturable"
        if "foreach" in info.supported_impls:
            yield "capturable_foreach"


@functools.cache
def _configurations(name: str) -> dict[str, dict[str, Any]]:
    """Keyword arguments by description; those that choose an implementation are set by us."""
    found = {}
    for entry in _INFOS[name].optim_inputs_func(device="cpu"):
        if not {"capturable", "fused", "foreach", "differentiable"} & set(entry.kwargs):
            found[entry.desc.replace(" ", "_").replace("/", "_") or "default"] = entry.kwargs
    return found


def cases(device: str) -> Iterator[Case]:
    for name, info in _INFOS.items():
        for configuration in _configurations(name):
            for implementation in _implementations(info):
                for dtype in ("float32", "float64", "bfloat16", "complex64"):
                    if info.supports_complex or dtype != "complex64":
                        yield Case(SUITE, f"{name}.{configuration}", implementation, dtype)
        for check in _EXTRA:
            yield Case(SUITE, name, check)


def run(case: Case, device: str, result: Result) -> None:
    if case.check in _EXTRA:
        _EXTRA[case.check](_INFOS[case.name], device, result)
        return
    name, _, configuration = case.name.partition(".")
    kwargs = _configurations(name)[configuration]
    here, there = _IMPLEMENTATIONS[case.check]
    if case.check == "default" and _defaults_to_foreach(name, device):
        there = {"foreach": True}
    dtype = getattr(torch, case.dtype)
    with _capturable_on_cpu():
        expected = observe(lambda: _train(_INFOS[name], "cpu", dtype, kwargs | there))
    actual = observe(lambda: _train(_INFOS[name], device, dtype, kwargs | here))
    if type(expected.error) is not type(actual.error):
        result.fail(f"{actual}; the CPU {expected}")
        return
    if expected.error is not None:
        raise Skip(f"the CPU {expected}")
    _record(result, device, actual.value, expected.value)


@contextmanager
def _capturable_on_cpu() -> Iterator[None]:
    """Let the CPU run what `capturable` runs on accelerators; PyTorch refuses it by device name."""
    name = "_get_capturable_supported_devices"
    loaded = list(sys.modules.items())
    modules = [m for path, m in loaded if path.startswith("torch.optim.") and hasattr(m, name)]
    with ExitStack() as patches:
        for module in modules:
            allowed = [*getattr(module, name)(), "cpu"]
            patches.enter_context(mock.patch.object(module, name, lambda *_, a=allowed, **__: a))
        yield


def _defaults_to_foreach(name: str, device: str) -> bool:
    """On accelerators PyTorch chooses foreach by default, on the CPU the loop."""
    return "foreach" in _INFOS[name].supported_impls and torch.device(device).type != "cpu"


def _record(result: Result, device: str, actual: Any, expected: Any) -> None:
    result.samples += 1
    comparison = Comparison(device).compare(actual, expected)
    result.bit_equal &= comparison.bit_equal
    for problem in comparison.problems[:5]:
        result.fail(problem)


def _parameters(device: str, dtype: torch.dtype, info: Any) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(3)
    shapes = [shape for shape in _SHAPES if len(shape) == 2 or info.name != "Muon"]
    values = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    if dtype.is_complex:
        values = [torch.complex(value, value.flip(0)) for value in values]
    return [torch.nn.Parameter(value.to(dtype).to(device)) for value in values]


def _gradient(parameter: torch.Tensor, step: int) -> torch.Tensor:
    """A smooth function of the parameter with exact arithmetic only."""
    return parameter.detach() * (0.5 if step % 2 else -0.25)


def _steps(optimizer: Any, parameters: list[torch.nn.Parameter], sparse: bool = False) -> None:
    for step in range(STEPS):
        for parameter in parameters:
            gradient = _gradient(parameter, step)
            parameter.grad = gradient.to_sparse() if sparse else gradient
        optimizer.step(lambda: sum((p.detach().abs() ** 2).sum().cpu() for p in parameters))


def _train(
    info: Any, device: str, dtype: torch.dtype, kwargs: dict[str, Any], sparse: bool = False
) -> Any:
    parameters = _parameters(device, dtype, info)
    optimizer = info.optim_cls(parameters, **copy.deepcopy(kwargs))
    sparse = sparse or info.only_supports_sparse_grads
    if kwargs.get("differentiable"):
        # The parameters of a differentiable step are not leaves.
        leaves, parameters = parameters, [parameter.clone() for parameter in parameters]
        optimizer.param_groups[0]["params"] = parameters
        _steps(optimizer, parameters)
        return parameters, torch.autograd.grad(sum(p.abs().sum() for p in parameters), leaves)
    _steps(optimizer, parameters, sparse)
    return parameters, [_state(optimizer.state[parameter]) for parameter in parameters]


def _state(state: dict[str, Any]) -> dict[str, Any]:
    """A parameter's state; counters and other scalars may be kept on the host."""
    return {
        name: value.item() if isinstance(value, torch.Tensor) and value.dim() == 0 else value
        for name, value in state.items()
    }


def _sparse(info: Any, device: str, result: Result) -> None:
    if not info.supports_sparse and not info.only_supports_sparse_grads:
        raise Skip("no sparse gradients")
    kwargs = info.metadata_for_sparse[0]
    expected = _train(info, "cpu", torch.float64, kwargs, sparse=True)
    _record(result, device, _train(info, device, torch.float64, kwargs, sparse=True), expected)


def _resume(info: Any, device: str, result: Result) -> None:
    """A state saved on the CPU continues on the device as it does on the CPU, and back."""

    def continued(first: str, second: str) -> Any:
        parameters = _parameters(first, torch.float32, info)
        optimizer = info.optim_cls(parameters)
        _steps(optimizer, parameters, info.only_supports_sparse_grads)
        buffer = io.BytesIO()
        torch.save(optimizer.state_dict(), buffer)
        buffer.seek(0)
        moved = [torch.nn.Parameter(parameter.detach().to(second)) for parameter in parameters]
        resumed = info.optim_cls(moved)
        resumed.load_state_dict(torch.load(buffer, map_location=second))
        _steps(resumed, moved, info.only_supports_sparse_grads)
        return [parameter.detach().cpu() for parameter in moved]

    expected = continued("cpu", "cpu")
    for first, second in (("cpu", device), (device, "cpu"), (device, device)):
        _record(result, "cpu", continued(first, second), expected)


def _devices(info: Any, device: str, result: Result) -> None:
    """Parameters on two devices in one optimizer."""
    if not info.supports_multiple_devices:
        raise Skip("one device only")
    if torch.device(device).type == "cpu" or torch.accelerator.device_count() < 2:
        raise Skip("one device only")

    def trained(*devices: str) -> list[torch.Tensor]:
        parameters = [p for d in devices for p in _parameters(d, torch.float32, info)]
        _steps(info.optim_cls(parameters), parameters, info.only_supports_sparse_grads)
        return [parameter.detach().cpu() for parameter in parameters]

    kind = torch.device(device).type
    _record(result, "cpu", trained(f"{kind}:0", f"{kind}:1"), trained("cpu", "cpu"))


def _deepcopy(info: Any, device: str, result: Result) -> None:
    """A copied optimizer owns its state and continues on its own."""

    def copied(target: str) -> list[Any]:
        parameters = _parameters(target, torch.float32, info)
        optimizer = info.optim_cls(parameters)
        _steps(optimizer, parameters, info.only_supports_sparse_grads)
        twin, twins = copy.deepcopy((optimizer, parameters))
        _steps(optimizer, parameters, info.only_supports_sparse_grads)
        before = [parameter.detach().clone() for parameter in twins]
        _steps(twin, twins, info.only_supports_sparse_grads)
        return [before, twins, parameters]

    expected = observe(lambda: copied("cpu"))
    if expected.error is not None:
        raise Skip(f"the CPU {expected}")
    _record(result, device, copied(device), expected.value)


_EXTRA: dict[str, Callable[[Any, str, Result], None]] = {
    "sparse": _sparse,
    "resume": _resume,
    "devices": _devices,
    "deepcopy": _deepcopy,
}
