"""The other ways to call an operator: in place, into given outputs, as a method, through a view."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..case import Result, Skip
from ..differential import aliases
from ..mirror import tensors_in
from ..outcome import observe
from .inputs import call
from .registry import all_dtypes, body_check, only, probe_check, sample_inputs

_COMMON = only(torch.float32, torch.int64, torch.complex64, torch.bool)


def _inplace_forms(op: Any) -> list[Callable[..., Any]]:
    return [form for form in (op.inplace_variant, op.inplace_operator_variant) if form is not None]


@probe_check(
    "inplace",
    "I",
    applies=lambda op: bool(_inplace_forms(op)),
    dtypes=all_dtypes,
    inputs_after=True,
)
def inplace(op: Any, sample: Any) -> Any:
    if sample.broadcasts_input:
        raise Skip("the result is larger than the input")
    results = []
    for form in _inplace_forms(op):
        target = _cloned(sample.input)
        returned = form(target, *sample.args, **sample.kwargs)
        results.append((returned, target, _same_objects(returned, target)))
    return results


def _cloned(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [tensor.clone() for tensor in value]


def _same_objects(returned: Any, target: Any) -> bool:
    left, right = tensors_in(returned), tensors_in(target)
    return len(left) == len(right) and all(map(operator.is_, left, right))


def _forms(op: Any) -> dict[str, Callable[..., Any]]:
    forms = {"method": op.method_variant, "operator": op.operator_variant}
    forms |= {alias.name: alias.op for alias in op.aliases}
    return {name: form for name, form in forms.items() if form is not None}


@probe_check("variants", "V", applies=lambda op: bool(_forms(op)), dtypes=_COMMON, aliasing=True)
def variants(op: Any, sample: Any) -> Any:
    results = {}
    for name, form in _forms(op).items():
        outcome = observe(lambda f=form: f(sample.input, *sample.args, **sample.kwargs))
        results[name] = (outcome.value, type(outcome.error).__name__)
    return results


def _is_view(op: Any) -> bool:
    name = op.aten_name or op.name
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return any(
        returned.alias_info is not None and not returned.alias_info.is_write
        for schema in schemas
        for returned in schema.returns
    )


@probe_check("view", "W", applies=_is_view, dtypes=_COMMON)
def view(op: Any, sample: Any) -> Any:
    """Writing through what the operator returned must be seen in its inputs."""
    outputs = call(op, sample)
    sources = aliases(outputs, sample)
    if all(source < 0 for source in sources):
        raise Skip("no output aliases an input")
    writes = []
    for output, source in zip(tensors_in(outputs), sources, strict=True):
        if source >= 0:
            write = observe(lambda o=output: o.fill_(1))
            writes.append((type(write.error).__name__, output._is_view()))
    return sources, writes, outputs, tensors_in(sample)


def _filled(like: torch.Tensor, shape: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.full(shape, 1, dtype=dtype or like.dtype, device=like.device)


def _strided(like: torch.Tensor) -> torch.Tensor:
    """An output of the right shape whose every dimension has a gap."""
    spaced = _filled(like, [2 * size for size in like.shape])
    return spaced[tuple(slice(None, None, 2) for _ in like.shape)]


_OUTPUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exact": lambda like: _filled(like, like.shape),
    "strided": _strided,
    "empty": lambda like: _filled(like, (0,)),
    "wrong size": lambda like: _filled(like, (*like.shape, 2)),
    "wider dtype": lambda like: _filled(
        like, like.shape, torch.complex128 if like.is_complex() else torch.float64
    ),
    "integer dtype": lambda like: _filled(like, like.shape, torch.int64),
    "requires grad": lambda like: _filled(like, like.shape).requires_grad_(
        like.is_floating_point() or like.is_complex()
    ),
}


def _map_outputs(make: Callable[[torch.Tensor], torch.Tensor], outputs: Any) -> Any:
    if isinstance(outputs, torch.Tensor):
        return make(outputs)
    return tuple(make(output) for output in outputs)


def _expected_outputs(op: Any, sample: Any) -> Any:
    outputs = call(op, sample)
    is_sequence = isinstance(outputs, (tuple, list)) and len(outputs) > 0
    if not isinstance(outputs, torch.Tensor) and not (
        is_sequence and all(isinstance(output, torch.Tensor) for output in outputs)
    ):
        raise Skip("the result is not made of tensors")
    return outputs


@probe_check("out", "O", applies=lambda op: op.supports_out, dtypes=_COMMON, inputs_after=True)
def out(op: Any, sample: Any) -> Any:
    """`out=` of every fitness: result, error class, warnings, resizing and kept memory."""
    outputs = _expected_outputs(op, sample)
    results = {}
    for name, make in _OUTPUTS.items():
        given = _map_outputs(make, outputs)
        pointers = [tensor.data_ptr() for tensor in tensors_in(given)]
        outcome = observe(lambda o=given: op(sample.input, *sample.args, **sample.kwargs, out=o))
        result: tuple[Any, ...] = (type(outcome.error).__name__, outcome.warnings)
        if outcome.error is None:
            kept = [tensor.data_ptr() for tensor in tensors_in(given)] == pointers
            result += (_same_objects(outcome.value, given), kept or name == "wrong size")
            result += (_narrowed(given, outputs) if name == "wider dtype" else given,)
        results[name] = result
    return results


def _narrowed(given: Any, outputs: Any) -> list[tuple[str, torch.Tensor]]:
    """Results in the dtype they were computed in: their digits end where that dtype's do."""
    pairs = zip(tensors_in(given), tensors_in(outputs), strict=True)
    return [(str(wide.dtype), wide.to(output.dtype)) for wide, output in pairs]


@body_check("out_device", "X", applies=lambda op: op.supports_out, dtypes=None)
def out_device(op: Any, device: str, dtype: torch.dtype, result: Result) -> None:
    """An output on the CPU is refused where one on the device is taken."""
    if torch.device(device).type == "cpu":
        raise Skip("the device under test is the CPU")
    dtypes = only(torch.float32)(op, device)
    for sample in sample_inputs(op, device, next(iter(dtypes))):
        if op.is_factory_function and sample.kwargs.get("device") is None:
            continue
        outputs = observe(lambda s=sample: _expected_outputs(op, s)).value
        if outputs is None or not any(tensor.numel() for tensor in tensors_in(outputs)):
            continue
        here = _map_outputs(_OUTPUTS["exact"], outputs)
        there = _map_outputs(lambda like: _filled(like, like.shape).cpu(), outputs)
        bound = partial(op, sample.input, *sample.args, **sample.kwargs)
        taken = observe(partial(bound, out=here))
        refused = observe(partial(bound, out=there))
        if taken.error is None:
            result.samples += 1
            if not isinstance(refused.error, RuntimeError):
                result.fail(f"out= on the CPU: {refused}")
    if result.samples == 0:
        raise Skip("no sample takes out=")
