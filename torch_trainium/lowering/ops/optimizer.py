"""Fused optimizer steps and the gradient scaler's operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Number, Operand, Scalar, Value

aten = torch.ops.aten
Values = Sequence[Value]
Parameter = Scalar | Number


@dataclass(frozen=True)
class _Gradients:
    """What all fused steps do with gradients before they use them."""

    x: Builder
    grad_scale: Operand | None
    found_inf: Operand | None
    maximize: bool

    def unscaled(self, grad: Value) -> Value:
        """As the scaler would leave it, in the dtype to compute in."""
        wide = grad.to(dtypes.compute_dtype(grad.dtype))
        return wide if self.grad_scale is None else wide / self._number(self.grad_scale, wide.dtype)

    def descent(self, unscaled: Value) -> Value:
        """The direction to go down."""
        return -unscaled if self.maximize else unscaled

    def written(self, unscaled: Value, grad: Value) -> Value:
        """What becomes of the gradient itself."""
        return grad if self.grad_scale is None else self.unless_infinite(unscaled, grad)

    def unless_infinite(self, new: Value, old: Value) -> Value:
        """The new value, or the old one where the scaler found a gradient that is not finite."""
        new = new.to(old.dtype)
        if self.found_inf is None:
            return new
        is_found = self._number(self.found_inf, torch.float32).eq(1.0)
        return self.x.select(is_found, old, new)

    def _number(self, operand: Operand, dtype: torch.dtype) -> Value:
        return self.x.reshape(self.x.number(operand, dtype), [])


@dataclass(frozen=True)
class _Adam:
    """The hyperparameters of a step, as zero-dim values of the dtype to compute in."""

    x: Builder
    dtype: torch.dtype
    lr: Operand
    beta1: Parameter
    beta2: Parameter
    weight_decay: Parameter
    eps: Parameter
    is_decoupled: bool

    def number(self, operand: Operand) -> Value:
        return self.x.reshape(self.x.number(operand, self.dtype), [])

    def rest(self, beta: Parameter) -> Value:
        """1 - beta, of which single precision would lose four digits."""
        return self.x.host_number("complement", [beta], self.dtype)

    def correction(self, beta: Parameter, step: Value) -> Value:
        """1 - beta ** step."""
        x = self.x
        return -x.expm1(x.log1p(-self.rest(beta)) * step)

    def decayed(self, parameter: Value, grad: Value) -> tuple[Value, Value]:
        """Parameter and gradient with weight decay."""
        decay = self.number(self.weight_decay)
        if self.is_decoupled:
            return parameter * (1.0 - self.number(self.lr) * decay), grad
        return parameter, grad + parameter * decay

    def step(self, state: Values, grad: Value, step: Value) -> list[Value]:
        """New parameter, averages of gradient and square and, if there is one, largest square."""
        x = self.x
        parameter, mean, square, *most = state
        parameter, grad = self.decayed(parameter, grad)
        mean = mean + (grad - mean) * self.rest(self.beta1)
        square = square * self.number(self.beta2) + grad * grad * self.rest(self.beta2)
        most = [x.maximum(largest, square) for largest in most]
        root = x.sqrt(most[0] if most else square)
        divisor = root / x.sqrt(self.correction(self.beta2, step)) + self.number(self.eps)
        size = self.number(self.lr) / self.correction(self.beta1, step)
        return [parameter - mean / divisor * size, mean, square, *most]


def _lower_adam(overloads: Sequence[Any], is_decoupled: bool) -> None:
    @lower(*overloads)
    def adam(
        x: Builder,
        parameters: Values,
        grads: Values,
        means: Values,
        squares: Values,
        most_squares: Values,
        steps: Values,
        *,
        lr: Operand,
        beta1: Parameter,
        beta2: Parameter,
        weight_decay: Parameter,
        eps: Parameter,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Operand | None,
        found_inf: Operand | None,
    ) -> tuple[list[Value], ...]:
        gradients = _Gradients(x, grad_scale, found_inf, maximize)
        rows = []
        for i, parameter in enumerate(parameters):
            wide = dtypes.compute_dtype(parameter.dtype)
            rule = _Adam(x, wide, lr, beta1, beta2, weight_decay, eps, is_decoupled)
            old = [parameter, means[i], squares[i], *(most_squares[i : i + 1] if amsgrad else [])]
            unscaled = gradients.unscaled(grads[i])
            new = rule.step(
                [value.to(wide) for value in old],
                gradients.descent(unscaled).to(wide),
                x.reshape(x.number(steps[i], wide), []),
            )
            kept = [gradients.unless_infinite(n, o) for n, o in zip(new, old, strict=True)]
            rows.append([kept[0], gradients.written(unscaled, grads[i]), *kept[1:]])
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        return (*columns[:4], columns[4] if amsgrad and rows else list(most_squares))


_lower_adam([aten._fused_adam, aten._fused_adam.tensor_lr], is_decoupled=False)
_lower_adam([aten._fused_adamw, aten._fused_adamw.tensor_lr], is_decoupled=True)


@lower(aten._fused_sgd, aten._fused_sgd.tensor_lr, static=("momentum",))
def fused_sgd(
    x: Builder,
    parameters: Values,
    grads: Values,
    momenta: Values,
    *,
    weight_decay: Parameter,
    momentum: float,
    lr: Operand,
    dampening: Parameter,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Operand | None,
    found_inf: Operand | None,
) -> tuple[list[Value], ...]:
    gradients = _Gradients(x, grad_scale, found_inf, maximize)
    results: tuple[list[Value], ...] = ([], [], [])
    for i, parameter in enumerate(parameters):
        wide = dtypes.compute_dtype(parameter.dtype)
        value = parameter.to(wide)
        unscaled = gradients.unscaled(grads[i])
        grad = gradients.descent(unscaled).to(wide) + value * x.number(weight_decay, wide)
        if momentum != 0:
            gained = momenta[i].to(wide) * momentum
            gained = gained + grad * x.host_number("complement", [dampening], wide)
            gained = grad if is_first_step else gained
            results[2].append(gradients.unless_infinite(gained, momenta[i]))
            grad = grad + gained * momentum if nesterov else gained
        value = value - grad * x.reshape(x.number(lr, wide), [])
        results[0].append(gradients.unless_infinite(value, parameter))
        results[1].append(gradients.written(unscaled, grads[i]))
    results[2].extend(momenta if momentum == 0 else [])
    return results


@lower(aten._fused_adagrad.tensor_lr)
def fused_adagrad(
    x: Builder,
    parameters: Values,
    grads: Values,
    sums: Values,
    steps: Values,
    *,
    lr: Operand,
    lr_decay: Parameter,
    weight_decay: Parameter,
    eps: Parameter,
    maximize: bool,
    grad_scale: Operand | None,
    found_inf: Operand | None,
) -> tuple[list[Value], ...]:
    gradients = _Gradients(x, grad_scale, found_inf, maximize)
    results: tuple[list[Value], ...] = ([], [], [])
    for parameter, scaled, total, step in zip(parameters, grads, sums, steps, strict=True):
        wide = dtypes.compute_dtype(parameter.dtype)
        value = parameter.to(wide)
        unscaled = gradients.unscaled(scaled)
        grad = gradients.descent(unscaled).to(wide) + value * x.number(weight_decay, wide)
        before = x.reshape(x.number(step, wide), []) - 1.0
        rate = x.reshape(x.number(lr, wide), []) / (before * x.number(lr_decay, wide) + 1.0)
        squares = total.to(wide) + grad * grad
        value = value - grad * rate / (x.sqrt(squares) + x.number(eps, wide))
        results[0].append(gradients.unless_infinite(value, parameter))
        results[1].append(gradients.written(unscaled, scaled))
        results[2].append(gradients.unless_infinite(squares, total))
    return results


@lower(aten._fused_adagrad)
def fused_adagrad_number(
    x: Builder,
    parameters: Values,
    grads: Values,
    sums: Values,
    steps: Values,
    *,
    lr: Operand,
    lr_decay: Parameter,
    weight_decay: Parameter,
    eps: Parameter,
    maximize: bool,
    grad_scale: Operand | None,
    found_inf: Operand | None,
) -> tuple[list[Value], ...]:
    results = fused_adagrad(
        x,
        parameters,
        grads,
        sums,
        steps,
        lr=lr,
        lr_decay=lr_decay,
        weight_decay=weight_decay,
        eps=eps,
        maximize=maximize,
        grad_scale=grad_scale,
        found_inf=found_inf,
    )
    return (*results, list(steps))


@lower(aten._amp_foreach_non_finite_check_and_unscale)
def unscale(
    x: Builder, grads: Values, found_inf: Value, inverse_scale: Operand
) -> tuple[list[Value], Value]:
    is_bad = x.constant(False, torch.bool)
    unscaled = []
    for grad in grads:
        wide = grad.to(dtypes.compute_dtype(grad.dtype))
        is_bad = is_bad | x.any(~x.is_finite(wide), None)
        factor = x.reshape(x.number(inverse_scale, wide.dtype), [])
        unscaled.append((wide * factor).to(grad.dtype))
    return unscaled, x.select(is_bad, 1.0, found_inf)


@lower(aten._amp_update_scale)
def update_scale(
    x: Builder,
    scale: Value,
    growth_tracker: Value,
    found_inf: Operand,
    growth_factor: Parameter,
    backoff_factor: Parameter,
    growth_interval: int,
) -> tuple[Value, Value]:
    is_bad = x.reshape(x.number(found_inf, torch.float32), []).ne(0.0)
    successful = growth_tracker + 1
    is_due = successful.eq(growth_interval) & ~is_bad
    grown = scale * x.number(growth_factor, scale.dtype)
    grown = x.select(x.is_finite(grown), grown, scale)
    backed_off = scale * x.number(backoff_factor, scale.dtype)
    new_scale = x.select(is_bad, backed_off, x.select(is_due, grown, scale))
    return new_scale, x.select(is_bad | is_due, 0, successful)
