"""Module.to: parameters move, and stay the parameters they were."""

import pytest
import torch
from torch import nn


class TiedLanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(ids))


CONVERSIONS = {
    "to": lambda m: m.to("neuron:1"),
    "neuron": lambda m: m.neuron(1),
    "to with dtype": lambda m: m.to("neuron:1", torch.bfloat16),
    "and back": lambda m: m.to("neuron:1").cpu(),
    "to_empty": lambda m: m.to_empty(device="neuron:1"),
    "between devices": lambda m: m.to("neuron:0").to("neuron:1"),
}


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_tied_parameters_stay_tied(conversion: str) -> None:
    model = TiedLanguageModel()
    weight = model.head.weight
    converted = CONVERSIONS[conversion](model)
    assert converted.embedding.weight is converted.head.weight is weight
    assert weight.device == torch.device("cpu" if conversion == "and back" else "neuron:1")
    assert len(list(converted.parameters())) == 1


def test_tied_model_trains_as_on_the_cpu() -> None:
    ids = torch.tensor([[1, 2, 3, 4]])
    losses = {}
    for device in ("cpu", "neuron"):
        torch.manual_seed(0)
        model = TiedLanguageModel().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses[device] = []
        for _ in range(5):
            optimizer.zero_grad()
            logits = model(ids.to(device))
            loss = nn.functional.cross_entropy(logits[0], ids[0].to(device))
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["neuron"] == losses["cpu"]


def test_optimizer_made_before_the_move_trains_the_moved_parameters() -> None:
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("neuron")
    before = model.weight.detach().clone()
    model(torch.ones(1, 3, device="neuron")).sum().backward()
    optimizer.step()
    assert torch.equal(model.weight, before - 1)


def test_gradients_move_along() -> None:
    model = nn.Linear(3, 3)
    model(torch.ones(1, 3)).sum().backward()
    model.to("neuron:2")
    assert model.weight.grad.device == torch.device("neuron:2")
    model.cpu()
    assert torch.equal(model.weight.grad, torch.ones(3, 3))


def test_parameter_of_a_live_graph_can_move() -> None:
    model = nn.Linear(3, 3)
    output = model(torch.ones(1, 3))
    model.to("neuron")
    model(torch.ones(1, 3, device="neuron")).sum().backward()
    assert model.weight.grad.device.type == "neuron"
    assert output.requires_grad


def test_data_assignment_moves_a_tensor_in_place() -> None:
    tensor = torch.ones(2, 3)
    alias = tensor
    tensor.data = torch.zeros(4, device="neuron:1")
    assert alias.device == torch.device("neuron:1")
    assert alias.shape == (4,)


def test_data_of_another_layout_is_refused() -> None:
    tensor = torch.ones(2, 2, device="neuron")
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        tensor.data = torch.ones(2, 2).to_sparse()


def test_buffers_and_recurrent_weights_move() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.LSTM(4, 4)).to("neuron")
    assert {t.device.type for t in (*model.parameters(), *model.buffers())} == {"neuron"}
    assert model[0].running_mean.device.type == "neuron"
