"""Zero tensors, which autograd makes without memory, behave as on the CPU."""

import torch
import torch.autograd.forward_ad as fw


def test_zero_tensor_is_on_the_requested_device() -> None:
    for device, expected in (("neuron", "neuron:0"), ("neuron:2", "neuron:2")):
        zeros = torch._efficientzerotensor((3, 2), device=device)
        assert zeros.device == torch.device(expected)
        assert zeros._is_zerotensor()


def test_zero_tensor_takes_no_memory() -> None:
    before = torch.neuron.memory_allocated()
    zeros = torch._efficientzerotensor((1 << 20,), device="neuron")
    assert torch.neuron.memory_allocated() == before
    assert zeros.numel() == 1 << 20


def test_functions_of_a_zero_tensor() -> None:
    zeros = torch._efficientzerotensor((3, 2), device="neuron")
    assert torch.equal(zeros.exp().cpu(), torch.ones(3, 2))
    assert torch.equal((zeros + 1).cpu(), torch.ones(3, 2))
    assert torch.equal(zeros.cpu(), torch.zeros(3, 2))
    assert torch.equal(torch.ones(3, 2, device="neuron").copy_(zeros).cpu(), torch.zeros(3, 2))


def test_zero_tangents_reach_a_composite_derivative() -> None:
    matrix = torch.randn(3, 2, dtype=torch.complex128)
    scales = torch.randn(2, dtype=torch.complex128)
    tangents = {}
    for device in ("cpu", "neuron"):
        with fw.dual_level():
            arguments = [
                fw.make_dual(
                    x.to(device), torch._efficientzerotensor(x.shape, dtype=x.dtype, device=device)
                )
                for x in (matrix, scales)
            ]
            result = torch.linalg.householder_product(*arguments)
            tangents[device] = fw.unpack_dual(result).tangent.cpu()
    torch.testing.assert_close(tangents["neuron"], tangents["cpu"])
