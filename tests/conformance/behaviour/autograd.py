"""Autograd: graphs, hooks, modes, threads, checkpointing, function transforms."""

import threading

import pytest
import torch


def test_a_graph_across_devices(device: str) -> None:
    host = torch.randn(3, requires_grad=True)
    (host.to(device) * 2).to(f"{device}:1").sum().cpu().backward()
    assert torch.equal(host.grad, torch.full((3,), 2.0))


def test_gradients_accumulate_on_the_device(device: str) -> None:
    weight = torch.ones(3, device=device, requires_grad=True)
    for _ in range(3):
        (weight * 2).sum().backward()
    assert weight.grad.device == weight.device
    assert torch.equal(weight.grad.cpu(), torch.full((3,), 6.0))


def test_double_backward(device: str) -> None:
    x = torch.tensor([2.0, 3.0], device=device, requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second.cpu(), torch.tensor([12.0, 18.0]))


def test_in_place_changes_of_saved_tensors_are_found(device: str) -> None:
    x = torch.ones(3, device=device, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_in_place_through_a_view(device: str) -> None:
    x = torch.ones(4, device=device, requires_grad=True)
    y = x * 1
    y[1:3].mul_(3)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), torch.tensor([1.0, 3, 3, 1]))
    leaf = torch.ones(2, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.add_(1)


def test_hooks_see_gradients(device: str) -> None:
    seen = []
    x = torch.ones(2, device=device, requires_grad=True)
    x.register_hook(lambda gradient: seen.append(gradient.device.type))
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.sum().item()))
    (x * 2).sum().backward()
    assert seen == [device, 4.0]


def test_module_hooks(device: str) -> None:
    layer, seen = torch.nn.Linear(2, 2, device=device), []
    layer.register_forward_hook(lambda *args: seen.append("forward"))
    layer.register_full_backward_hook(lambda *args: seen.append("backward"))
    layer(torch.ones(1, 2, device=device)).sum().backward()
    assert seen == ["forward", "backward"]


def test_saved_tensor_hooks(device: str) -> None:
    x = torch.randn(4, device=device, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True, device_type=device):
        y = x.sin()
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), x.detach().cos().cpu())


def test_checkpointing_replays_random_numbers(device: str) -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x.sin(), 0.5)

    gradients = []
    for checkpointed in (False, True):
        torch.manual_seed(3)
        x = torch.ones(64, device=device, requires_grad=True)
        if checkpointed:
            y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        else:
            y = block(x)
        y.sum().backward()
        gradients.append(x.grad.cpu())
    assert torch.equal(*gradients)


def test_reentrant_checkpointing(device: str) -> None:
    x = torch.ones(8, device=device, requires_grad=True)
    torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=True).sum().backward()
    assert torch.equal(x.grad.cpu(), x.detach().cos().cpu())


def test_custom_functions(device: str) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            assert x.device.type == device
            return gradient * 2

    x = torch.ones(3, device=device, requires_grad=True)
    Double.apply(x).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((3,), 2.0))


def test_backward_runs_on_the_forward_stream(device: str) -> None:
    stream, seen = torch.Stream(device=device), []

    class Spy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(torch.accelerator.current_stream())
            return gradient

    x = torch.ones(3, device=device, requires_grad=True)
    with stream:
        y = Spy.apply(x)
    y.sum().backward()
    assert seen == [stream]


def test_errors_in_backward_reach_the_caller(device: str) -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("in backward")

    x = torch.ones(3, device=device, requires_grad=True)
    with pytest.raises(ValueError, match="in backward"):
        Broken.apply(x).sum().backward()
    (x * 2).sum().backward()
    assert x.grad.sum().item() == 6


def test_anomaly_mode_names_the_culprit(device: str) -> None:
    x = torch.zeros(2, device=device, requires_grad=True)
    with (
        torch.autograd.detect_anomaly(check_nan=True),
        pytest.raises(RuntimeError, match="SqrtBackward0"),
    ):
        (x.sqrt() * 0).sum().backward()


def test_modes_are_of_their_thread(device: str) -> None:
    seen = []

    def work() -> None:
        x = torch.ones(2, device=device, requires_grad=True)
        seen.append((x * 2).requires_grad)

    with torch.no_grad():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert not (torch.ones(2, device=device, requires_grad=True) * 2).requires_grad
    assert seen == [True]


def test_threads_differentiate_at_once(device: str) -> None:
    failures = []

    def work(seed: int) -> None:
        for _ in range(20):
            x = torch.full((32,), float(seed), device=device, requires_grad=True)
            (x * x).sum().backward()
            if x.grad.sum().item() != 64.0 * seed:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_inference_mode(device: str) -> None:
    x = torch.ones(2, device=device, requires_grad=True)
    with torch.inference_mode():
        y = x * 2
    assert y.is_inference()
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        (x * y).sum().backward()


def test_forward_mode(device: str) -> None:
    primal, tangent = torch.randn(3), torch.randn(3)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(primal.to(device), tangent.to(device))
        result = torch.autograd.forward_ad.unpack_dual(dual.sin()).tangent
    assert torch.allclose(result.cpu(), tangent * primal.cos())


def test_function_transforms(device: str) -> None:
    x = torch.randn(3, 4, device=device)
    assert torch.allclose(torch.func.vmap(torch.sum)(x), x.sum(1))
    gradients = torch.func.vmap(torch.func.grad(lambda row: row.sin().sum()))(x)
    assert torch.equal(gradients.cpu(), x.cos().cpu())
    _, tangent = torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))
    assert torch.equal(tangent.cpu(), x.cos().cpu())
    jacobian = torch.func.jacrev(torch.sin)(x[0])
    assert torch.allclose(jacobian.cpu(), torch.diag(x[0].cos().cpu()))
    hessian = torch.func.hessian(lambda row: row.sin().sum())(x[0])
    assert torch.allclose(hessian.cpu(), torch.diag(-x[0].sin().cpu()))


def test_per_sample_gradients_of_a_module(device: str) -> None:
    layer = torch.nn.Linear(4, 2).to(device)
    x = torch.randn(5, 4, device=device)

    def loss(parameters, row):
        return torch.func.functional_call(layer, parameters, (row,)).square().sum()

    parameters = dict(layer.named_parameters())
    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    layer(x).square().sum().backward()
    assert torch.allclose(per_sample["weight"].sum(0), layer.weight.grad, rtol=1e-4, atol=1e-5)


def test_randomness_under_vmap(device: str) -> None:
    x = torch.zeros(4, 8, device=device)
    noisy = torch.func.vmap(lambda row: row + torch.rand_like(row), randomness="different")(x)
    assert not torch.equal(noisy[0].cpu(), noisy[1].cpu())
    same = torch.func.vmap(lambda row: row + torch.rand(8, device=device), randomness="same")(x)
    assert torch.equal(same[0].cpu(), same[1].cpu())
    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(torch.rand_like)(x)


def test_gradient_of_indexing_and_scatter(device: str) -> None:
    x = torch.zeros(4, device=device, requires_grad=True)
    index = torch.tensor([0, 2, 2], device=device)
    x[index].sum().backward()
    assert torch.equal(x.grad.cpu(), torch.tensor([1.0, 0, 2, 0]))
    mask = torch.tensor([True, False, True, False], device=device)
    (y,) = torch.autograd.grad((x[mask] * 3).sum(), x)
    assert torch.equal(y.cpu(), torch.tensor([3.0, 0, 3, 0]))
