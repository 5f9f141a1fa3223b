"""Optimizer steps as programs: every operator of PyTorch's optimizers against the CPU's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db

from .compare import CompareWithCpu

IMPLEMENTATIONS = ("foreach", "fused", "for-loop")
CASES = [
    (info, implementation)
    for info in optim_db
    for implementation in IMPLEMENTATIONS
    if implementation in (*info.supported_impls, "for-loop")
    and info.optim_cls.__name__ not in ("LBFGS", "SparseAdam")
]


@pytest.mark.parametrize(
    ("info", "implementation"),
    CASES,
    ids=[f"{info.optim_cls.__name__}-{implementation}" for info, implementation in CASES],
)
def test_steps_agree(compared: CompareWithCpu, info: OptimizerInfo, implementation: str) -> None:
    for inputs in info.optim_inputs_func(device="cpu"):
        options = {k: v for k, v in inputs.kwargs.items() if k not in ("foreach", "fused")}
        if implementation != "for-loop":
            options[implementation] = True
        if options.get("capturable"):
            continue  # the CPU has none
        _train(info, options)


def _train(info: OptimizerInfo, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape).to("neuron")) for shape in ((4, 3), (3, 5))]
    optimizer = info.optim_cls(parameters, **options)
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("found", [0.0, 1.0])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "adagrad"])
def test_scaled_fused_steps_agree(
    compared: CompareWithCpu, name: str, found: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    overload = getattr(torch.ops.aten, f"_fused_{name}_").default

    def tensors() -> list[torch.Tensor]:
        return [torch.rand(shape).to("neuron", dtype) for shape in ((4, 3), (5,))]

    def number(value: float) -> torch.Tensor:
        return torch.tensor(value, device="neuron")

    steps = [number(3.0), number(7.0)]
    shared = {"lr": 0.01, "weight_decay": 0.1, "maximize": True}
    shared |= {"grad_scale": number(2.0), "found_inf": number(found)}
    adam = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": True}
    sgd = {"momentum": 0.9, "dampening": 0.1, "nesterov": False, "is_first_step": False}
    adagrad = {"lr_decay": 0.1, "eps": 1e-10}
    lists, options = {
        "adam": ([*(tensors() for _ in range(5)), steps], adam),
        "adamw": ([*(tensors() for _ in range(5)), steps], adam),
        "sgd": ([tensors() for _ in range(3)], sgd),
        "adagrad": ([*(tensors() for _ in range(3)), steps], adagrad),
    }[name]
    overload(*lists, **options, **shared)


@pytest.mark.parametrize("bad", [float("inf"), float("nan"), 1.0])
def test_unscaling_finds_what_is_not_finite(bad: float) -> None:
    from torch_trainium.eager.calls import call

    grads = [torch.ones(3), torch.tensor([1.0, bad])]
    found = torch.zeros(1)
    unscale = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default
    call(unscale, grads, found, torch.tensor([0.5]))
    assert found.item() == (bad != 1.0)
    assert torch.equal(grads[0], torch.full((3,), 0.5))


@pytest.mark.parametrize(
    ("found", "tracker", "scale"), [(0.0, 1, 8.0), (0.0, 2, 16.0), (1.0, 2, 4.0)]
)
def test_the_scale_grows_and_backs_off(found: float, tracker: int, scale: float) -> None:
    from torch_trainium.eager.calls import call

    now, growth = torch.tensor([8.0]), torch.tensor([tracker], dtype=torch.int32)
    update = torch.ops.aten._amp_update_scale_.default
    call(update, now, growth, torch.tensor([found]), 2.0, 0.5, 3)
    assert now.item() == scale
    assert growth.item() == (0 if found or tracker == 2 else tracker + 1)
