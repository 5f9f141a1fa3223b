"""Legacy quantized dtypes raise; fake quantization and quantized subclasses work."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

DEVICE = "neuron:0"


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8)


REFUSED: dict[str, Callable[[], Any]] = {
    "quantize_per_tensor": lambda: torch.quantize_per_tensor(
        torch.randn(3, device=DEVICE), 0.1, 0, torch.qint8
    ),
    "quantize_per_tensor_dynamic": lambda: torch.quantize_per_tensor_dynamic(
        torch.randn(3, device=DEVICE), torch.quint8, False
    ),
    "quantize_per_channel": lambda: torch.quantize_per_channel(
        torch.randn(3, 2, device=DEVICE),
        torch.ones(2, device=DEVICE),
        torch.zeros(2, device=DEVICE),
        1,
        torch.qint8,
    ),
    "to": lambda: quantized().to(DEVICE),
    "empty": lambda: torch.empty(3, dtype=torch.qint8, device=DEVICE),
    "_empty_affine_quantized": lambda: torch._empty_affine_quantized(
        [3], scale=0.1, zero_point=0, dtype=torch.qint8, device=DEVICE
    ),
    "empty_quantized": lambda: torch.empty_quantized([3], quantized(), device=DEVICE),
    "copy_": lambda: torch.zeros(3, device=DEVICE).copy_(quantized()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_quantized_dtypes_are_refused_with_the_remedy(name: str) -> None:
    with pytest.raises((NotImplementedError, TypeError), match="fake quantization"):
        REFUSED[name]()


FAKE: dict[str, Callable[[str], Any]] = {
    "per tensor": lambda d: torch.fake_quantize_per_tensor_affine(values(d), 0.1, 0, -128, 127),
    "per tensor with tensors": lambda d: torch.fake_quantize_per_tensor_affine(
        values(d),
        torch.tensor(0.1, device=d),
        torch.tensor(0, dtype=torch.int32, device=d),
        -128,
        127,
    ),
    "per channel": lambda d: torch.fake_quantize_per_channel_affine(
        values(d), torch.tensor([0.1, 0.2], device=d), torch.zeros(2, device=d), 0, -128, 127
    ),
}


def values(device: str) -> torch.Tensor:
    return torch.linspace(-2, 2, 10).view(2, 5).to(device).requires_grad_()


@pytest.mark.parametrize("name", FAKE)
def test_fake_quantization(name: str) -> None:
    expected, actual = FAKE[name]("cpu"), FAKE[name](DEVICE)
    assert torch.equal(actual.cpu(), expected)
    for result in (actual, expected):
        result.sum().backward()


def test_quantization_aware_training_module() -> None:
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        fake = torch.ao.quantization.FakeQuantize(dtype=torch.qint8, quant_min=-128, quant_max=127)
        fused = torch.ao.quantization.FusedMovingAvgObsFakeQuantize(
            observer=torch.ao.quantization.MovingAverageMinMaxObserver
        )
        layer = torch.nn.Linear(4, 4)
        model = torch.nn.Sequential(fake, layer, fused).to(device)
        data = torch.linspace(-1, 1, 8).view(2, 4).to(device).requires_grad_()
        output = model(data)
        output.sum().backward()
        return [output, data.grad, layer.weight.grad, fake.scale, fused.scale]

    for actual, expected in zip(run(DEVICE), run("cpu"), strict=True):
        assert torch.allclose(actual.cpu(), expected, atol=1e-6)


class Int8Weight(torch.Tensor):
    """A weight-only quantized tensor as torchao makes them: integers and scales, dispatched."""

    @staticmethod
    def __new__(cls, integers: torch.Tensor, scales: torch.Tensor) -> "Int8Weight":
        return torch.Tensor._make_wrapper_subclass(
            cls, integers.shape, dtype=scales.dtype, device=integers.device
        )

    def __init__(self, integers: torch.Tensor, scales: torch.Tensor) -> None:
        self.integers, self.scales = integers, scales

    @classmethod
    def quantize(cls, weight: torch.Tensor) -> "Int8Weight":
        scales = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scales).round().to(torch.int8), scales)

    def dequantize(self) -> torch.Tensor:
        return self.integers.to(self.scales.dtype) * self.scales

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            data, weight, *bias = args
            product = data @ weight.integers.to(data.dtype).t() * weight.scales.t()
            return product + bias[0] if bias and bias[0] is not None else product
        return super().__torch_function__(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return cls(args[0].integers, args[0].scales)
        if func is torch.ops.aten._to_copy.default:
            device = kwargs.get("device")
            return cls(args[0].integers.to(device), args[0].scales.to(device))
        if func is torch.ops.aten._has_compatible_shallow_copy_type.default:
            return False
        raise NotImplementedError(func)


def test_quantized_subclass() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 4)
    layer.weight = torch.nn.Parameter(Int8Weight.quantize(layer.weight.detach()), False)
    data = torch.randn(3, 8)
    expected = layer(data)
    there = layer.to(DEVICE)
    assert type(there.weight.data) is Int8Weight
    assert there.weight.device == torch.device(DEVICE)
    assert there.weight.integers.device == torch.device(DEVICE)
    assert torch.allclose(there(data.to(DEVICE)).cpu(), expected, atol=1e-6)
