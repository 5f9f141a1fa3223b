"""Training with compiled graphs: the CPU's outputs, gradients, buffers and losses."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.compile.models import Block, Gpt, conv_net, mlp
from torch_trainium.engines.programs import program_cache

MODELS = {
    "mlp": (mlp, lambda: torch.randn(5, 8)),
    "conv_net": (conv_net, lambda: torch.randn(2, 3, 8, 8)),
    "gpt": (Gpt, lambda: torch.randint(17, (2, 8))),
}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_gradients_and_buffers_are_the_cpus(name, graphs):
    make, sample = MODELS[name]
    expected, x = make(), sample()
    actual = copy.deepcopy(expected).to("neuron")
    compiled = torch.compile(actual, fullgraph=True)
    wanted, given = expected(x), compiled(x.to("neuron"))
    torch.testing.assert_close(given.cpu(), wanted)
    wanted.square().mean().backward()
    given.square().mean().backward()
    for parameter, reference in zip(actual.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), reference.grad)
    for buffer, reference in zip(actual.buffers(), expected.buffers(), strict=True):
        torch.testing.assert_close(buffer.cpu(), reference)
    assert [graph.kind for graph in graphs] == ["forward", "backward"]
    assert [len(graph.pieces) for graph in graphs] == [1, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_through_a_batch_norm_in_evaluation(dtype, graphs):
    expected = conv_net().eval().to(dtype)
    actual = copy.deepcopy(expected).to("neuron")
    x = torch.randn(2, 3, 8, 8, dtype=dtype)
    wanted, given = expected(x), torch.compile(actual, fullgraph=True)(x.to("neuron"))
    torch.testing.assert_close(given.cpu(), wanted)
    wanted.sum().backward()
    given.sum().backward()
    for parameter, reference in zip(actual.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), reference.grad)
    assert [len(graph.pieces) for graph in graphs] == [1, 1]


def losses(device: str, wrap: Callable[..., Callable[..., torch.Tensor]]) -> list[float]:
    torch.manual_seed(1)
    model = mlp().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def forward(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x), labels)

    forward, step = wrap(forward), wrap(optimizer.step)
    found = []
    for _ in range(4):
        x, labels = torch.randn(6, 8), torch.randint(4, (6,))
        optimizer.zero_grad()
        loss = forward(x.to(device), labels.to(device))
        loss.backward()
        step()
        found.append(loss.item())
    return found


def test_losses_with_a_compiled_optimizer_are_the_cpus():
    expected = losses("cpu", lambda function: function)
    assert losses("neuron", torch.compile) == pytest.approx(expected, rel=1e-4)


def test_the_steady_state_compiles_nothing(graphs):
    model = torch.compile(Gpt().to("neuron"))
    tokens = torch.randint(17, (2, 8), device="neuron")
    model(tokens).sum().backward()
    compiled, programs = len(graphs), program_cache().statistics.compiles
    for _ in range(3):
        model(tokens).sum().backward()
    assert len(graphs) == compiled
    assert program_cache().statistics.compiles == programs
    assert [piece.compiles for graph in graphs for piece in graph.pieces] == [1, 1]


def test_two_compiled_functions_of_one_model_do_not_disturb_each_other():
    model = mlp().to("neuron")
    x = torch.randn(3, 8, device="neuron")
    first, second = torch.compile(model), torch.compile(lambda x: model(x) * 2)
    torch.testing.assert_close((first(x) * 2).cpu(), second(x).cpu())


def test_layers_compiled_one_by_one_share_a_graph(graphs):
    layers = nn.ModuleList(Block(8, 2) for _ in range(3)).to("neuron")
    x = torch.randn(2, 4, 8, device="neuron")
    with torch.no_grad():
        wanted = nn.Sequential(*layers)(x)
        for layer in layers:
            layer.compile(fullgraph=True)
        given = nn.Sequential(*layers)(x)
    torch.testing.assert_close(given.cpu(), wanted.cpu())
    assert len(graphs) == 1
