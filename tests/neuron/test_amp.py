"""torch.neuron.amp: torch.amp with the device filled in."""

import pytest
import torch
from torch import nn

amp = torch.neuron.amp


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_lowers_matmuls_and_keeps_reductions(dtype: torch.dtype) -> None:
    a = torch.randn(4, 4, device="neuron")
    with amp.autocast(dtype=dtype):
        product = a @ a
        assert product.dtype == dtype
        assert product.sum().dtype == torch.float32
        assert torch.softmax(product, 0).dtype == torch.float32
    assert (a @ a).dtype == torch.float32


def test_autocast_is_torch_autocast_for_neuron() -> None:
    with amp.autocast(dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("neuron")
        assert torch.get_autocast_dtype("neuron") == torch.bfloat16
        assert not torch.is_autocast_enabled("cpu")
        with amp.autocast(enabled=False):
            assert not torch.is_autocast_enabled("neuron")

    @amp.autocast(dtype=torch.bfloat16)
    def decorated() -> bool:
        return torch.is_autocast_enabled("neuron")

    assert decorated()
    assert not torch.is_autocast_enabled("neuron")


def test_autocast_refuses_other_dtypes() -> None:
    with pytest.warns(UserWarning, match="not supported"):
        assert not amp.autocast(dtype=torch.int32)._enabled


def test_grad_scaler_trains_and_skips_infinite_steps() -> None:
    model = nn.Linear(4, 1).to("neuron")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = amp.GradScaler(init_scale=1024.0)
    before = model.weight.detach().clone()
    for factor, changes in ((1.0, True), (float("inf"), False)):
        optimizer.zero_grad()
        with amp.autocast(dtype=torch.float16):
            loss = model(torch.ones(2, 4, device="neuron")).sum() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert (not torch.equal(model.weight, before)) == changes
        before = model.weight.detach().clone()
    assert scaler.get_scale() == 512.0


def test_custom_function_sees_the_dtype_it_asks_for() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        @amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.enabled = torch.is_autocast_enabled("neuron")
            return x * x

        @staticmethod
        @amp.custom_bwd
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert torch.is_autocast_enabled("neuron") == ctx.enabled
            return 2 * x * grad

    x = torch.ones(2, dtype=torch.float16, device="neuron", requires_grad=True)
    with amp.autocast(dtype=torch.float16):
        y = Square.apply(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
