"""Random numbers in compiled graphs: those that eager mode draws, from the same generator."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

DRAWS = {
    "rand": lambda x: torch.rand_like(x) + torch.rand(5, device=x.device)[0],
    "randn": lambda x: torch.randn(x.shape, device=x.device),
    "dropout": lambda x: F.dropout(x, 0.3),
    "bernoulli": lambda x: torch.bernoulli(x.clamp(0, 1)),
    "uniform_": lambda x: torch.empty_like(x).uniform_(-1, 2),
    "normal_": lambda x: torch.empty_like(x).normal_(1, 2),
    "randint": lambda x: torch.randint(0, 9, x.shape, device=x.device) + x,
    "randperm": lambda x: torch.randperm(7, device=x.device),
    "in turn": lambda x: F.dropout(torch.randn_like(x), 0.5) + torch.rand_like(x),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_are_those_of_eager_mode(name):
    function, x = DRAWS[name], torch.ones(3, 5, device="neuron") * 0.5
    compiled = torch.compile(function, fullgraph=True)
    compiled(x)  # whatever compiling does to the generator comes first
    torch.neuron.manual_seed(7)
    wanted = [function(x).cpu() for _ in range(2)]
    state = torch.neuron.get_rng_state()
    torch.neuron.manual_seed(7)
    given = [compiled(x).cpu() for _ in range(2)]
    assert torch.equal(torch.neuron.get_rng_state(), state)
    torch.testing.assert_close(given, wanted)
    assert not torch.equal(given[0], given[1])


def test_compiling_draws_nothing():
    torch.neuron.manual_seed(7)
    before = torch.neuron.get_rng_state()
    torch.compile(lambda x: F.dropout(x, 0.5, training=False) + 1)(torch.ones(4, device="neuron"))
    assert torch.equal(torch.neuron.get_rng_state(), before)


def test_the_backward_pass_uses_the_mask_of_the_forward_pass():
    x = torch.ones(64, device="neuron", requires_grad=True)
    y = torch.compile(lambda x: F.dropout(x, 0.5))(x)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


def test_a_checkpointed_dropout_draws_its_mask_once():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).to("neuron")
    x = torch.ones(4, 8, device="neuron")

    def function(x):
        return torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)

    def gradient(run):
        torch.neuron.manual_seed(3)
        model.zero_grad()
        run(x).sum().backward()
        return model[0].weight.grad.cpu()

    torch.testing.assert_close(gradient(torch.compile(function)), gradient(function))
