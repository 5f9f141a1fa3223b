"""Autocast and gradient scaling."""

import pytest
import torch


def _operands(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 4, device=device), torch.randn(4, 4, device=device)


def test_supported_dtypes_are_offered(device: str) -> None:
    supported = torch.get_device_module(device).get_amp_supported_dtype()
    assert {torch.bfloat16, torch.float16} <= set(supported)
    assert torch.amp.is_autocast_available(device)


def test_matrix_products_run_in_the_low_precision(device: str) -> None:
    a, b = _operands(device)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast(device, dtype=dtype):
            assert torch.is_autocast_enabled(device)
            assert torch.mm(a, b).dtype == dtype
            assert torch.nn.functional.linear(a, b).dtype == dtype
            assert (a @ b).dtype == dtype
            assert torch.bmm(a[None], b[None]).dtype == dtype
        assert torch.mm(a, b).dtype == torch.float32
    assert not torch.is_autocast_enabled(device)


def test_convolutions_run_in_the_low_precision(device: str) -> None:
    image, kernel = torch.randn(1, 2, 5, 5, device=device), torch.randn(3, 2, 3, 3, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.nn.functional.conv2d(image, kernel).dtype == torch.bfloat16


def test_sensitive_functions_run_in_single_precision(device: str) -> None:
    low = torch.rand(4, 4, device=device, dtype=torch.bfloat16)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.softmax(low, 0).dtype == torch.float32
        assert torch.exp(low).dtype == torch.float32
        assert torch.nn.functional.layer_norm(low, (4,)).dtype == torch.float32
        assert low.sum().dtype == torch.float32
        target = torch.zeros(4, dtype=torch.long, device=device)
        assert torch.nn.functional.cross_entropy(low, target).dtype == torch.float32


def test_mixed_arguments_widen(device: str) -> None:
    low, high = torch.rand(2, device=device, dtype=torch.bfloat16), torch.rand(2, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.cat([low, high]).dtype == torch.float32
        assert torch.stack([low, low]).dtype == torch.bfloat16


def test_other_functions_keep_their_dtype(device: str) -> None:
    low = torch.rand(4, device=device, dtype=torch.bfloat16)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert (low + low).dtype == torch.bfloat16
        assert torch.relu(low).dtype == torch.bfloat16
        assert torch.arange(3, device=device).dtype == torch.int64


def test_binary_cross_entropy_is_banned(device: str) -> None:
    probability = torch.full((3,), 0.5, device=device)
    with (
        torch.autocast(device, dtype=torch.float16),
        pytest.raises(RuntimeError, match="unsafe to autocast"),
    ):
        torch.nn.functional.binary_cross_entropy(probability, probability)


def test_contexts_nest(device: str) -> None:
    a, b = _operands(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        with torch.autocast(device, enabled=False):
            assert torch.mm(a, b).dtype == torch.float32
        assert torch.mm(a, b).dtype == torch.bfloat16


def test_the_cpu_has_a_context_of_its_own(device: str) -> None:
    a, b = torch.randn(2, 2), torch.randn(2, 2)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.mm(a, b).dtype == torch.float32
    x, y = _operands(device)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.mm(x, y).dtype == torch.float32


def test_gradients_have_the_dtype_of_the_parameters(device: str) -> None:
    layer = torch.nn.Linear(4, 4, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        output = layer(torch.randn(2, 4, device=device))
    assert output.dtype == torch.bfloat16
    output.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_results_agree_with_an_explicit_cast(device: str) -> None:
    a, b = _operands(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        result = torch.mm(a, b)
    assert torch.equal(result.cpu(), torch.mm(a.bfloat16(), b.bfloat16()).cpu())


def test_custom_functions_follow_autocast(device: str) -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=device, cast_inputs=torch.float32)
        def forward(ctx, x, y):
            assert not torch.is_autocast_enabled(device)
            return x.mm(y)

        @staticmethod
        @torch.amp.custom_bwd(device_type=device)
        def backward(ctx, gradient):
            return gradient, gradient

    a, b = (operand.bfloat16().requires_grad_() for operand in _operands(device))
    with torch.autocast(device, dtype=torch.bfloat16):
        product = Product.apply(a, b)
    assert product.dtype == torch.float32


def test_a_scaler_skips_steps_that_overflow(device: str) -> None:
    weight = torch.nn.Parameter(torch.ones(3, device=device))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(device, init_scale=4.0, growth_interval=1)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(weight.detach().cpu(), torch.zeros(3))
    assert scaler.get_scale() == 8.0
    optimizer.zero_grad()
    (scaler.scale(weight.sum()) * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(weight.detach().cpu(), torch.zeros(3))
    assert scaler.get_scale() == 4.0


def test_a_scaler_unscales_before_clipping(device: str) -> None:
    weight = torch.nn.Parameter(torch.ones(4, device=device))
    scaler = torch.amp.GradScaler(device, init_scale=1024.0)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    assert torch.equal(weight.grad.cpu(), torch.ones(4))
    norm = torch.nn.utils.clip_grad_norm_([weight], 1.0)
    assert norm.item() == 2.0
    restored = torch.amp.GradScaler(device)
    restored.load_state_dict(scaler.state_dict())
    assert restored.get_scale() == scaler.get_scale()
