"""Operators on lists of tensors count their writes for autograd."""

import pytest
import torch


def test_write_to_a_saved_tensor_is_found_in_backward() -> None:
    x = torch.ones(3, device="neuron", requires_grad=True)
    saved = x.exp()
    with torch.no_grad():
        torch._foreach_mul_([saved], 3.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()


def test_optimizer_step_between_two_backwards_is_found() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)).to("neuron")
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    loss = layers(torch.ones(2, 4, device="neuron")).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("name", ["_foreach_add_", "_foreach_zero_", "_foreach_copy_"])
def test_each_write_counts_once(name: str) -> None:
    tensors = [torch.ones(3, device="neuron"), torch.ones(2, device="neuron")]
    arguments = {"_foreach_add_": (1.0,), "_foreach_zero_": (), "_foreach_copy_": (tensors,)}
    getattr(torch, name)(tensors, *arguments[name])
    assert [t._version for t in tensors] == [1, 1]
    torch._foreach_add(tensors, 1.0)
    assert [t._version for t in tensors] == [1, 1]


def test_inference_tensors_can_be_written_in_inference_mode() -> None:
    with torch.inference_mode():
        tensors = [torch.ones(3, device="neuron")]
        torch._foreach_add_(tensors, 1.0)
        assert tensors[0].sum().item() == 6.0
