"""Operands of several devices: what CUDA accepts is accepted, the rest raises as there."""

from collections.abc import Callable

import pytest
import torch

REFUSED: dict[str, Callable[[], object]] = {
    "CPU operand": lambda: torch.ones(3, device="neuron") + torch.ones(3),
    "CPU scalar of a product": lambda: torch.mm(
        torch.ones(1, 1, device="neuron"), torch.ones(1, 1)
    ),
    "two devices": lambda: torch.ones(3, device="neuron:0") + torch.ones(3, device="neuron:1"),
    "CPU output": lambda: torch.add(torch.ones(3, device="neuron"), 1, out=torch.ones(3)),
    "zero-dim CPU output": lambda: torch.acos(
        torch.tensor(0.5, device="neuron"), out=torch.tensor(0.0)
    ),
    "CPU tensor indexed by the device": lambda: torch.ones(3)[torch.tensor([0], device="neuron")],
    "CPU values put on the device": lambda: torch.ones(3, device="neuron").index_put_(
        (torch.tensor([0, 1]),), torch.ones(2)
    ),
    "CPU mean with a device deviation": lambda: torch.normal(
        torch.zeros(3), torch.ones(3, device="neuron")
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_mixture_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        REFUSED[name]()


def test_zero_dim_cpu_scalars_are_accepted() -> None:
    x = torch.ones(3, device="neuron")
    assert torch.equal((x + torch.tensor(2.0)).cpu(), torch.full((3,), 3.0))
    x[torch.tensor([0])] = torch.tensor(7.0)
    assert x[0].item() == 7.0


def test_indices_may_be_on_the_cpu() -> None:
    x = torch.arange(3.0, device="neuron")
    assert x[torch.tensor([2])].device.type == "neuron"
    x[torch.tensor([1])] = torch.tensor([5.0], device="neuron")
    assert x[1].item() == 5.0


def test_generator_of_the_device_does_not_fill_a_cpu_tensor() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator"):
        torch.randn(3, generator=torch.Generator("neuron"))


def test_foreach_over_several_devices_goes_tensor_by_tensor() -> None:
    a, b = torch.ones(3, device="neuron:0"), torch.ones(2, device="neuron:1")
    sums = torch._foreach_add([a, b], 1)
    assert [str(t.device) for t in sums] == ["neuron:0", "neuron:1"]
    torch._foreach_mul_([a, b], 3)
    assert (a.cpu() == 3).all() and (b.cpu() == 3).all()
    torch._foreach_copy_([a, b], [torch.zeros(3), torch.zeros(2)])
    assert a.sum().item() == b.sum().item() == 0


def test_foreach_takes_its_scalars_from_the_cpu() -> None:
    tensors = [torch.ones(3, device="neuron")]
    (result,) = torch._foreach_addcdiv(tensors, tensors, tensors, torch.tensor([1.0]))
    assert torch.equal(result.cpu(), torch.full((3,), 2.0))
