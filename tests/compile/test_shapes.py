"""Sizes that change from call to call: one graph, a bounded number of programs, no silence."""

import warnings

import pytest
import torch
from torch import nn

from tests.compile.models import Gpt, Llama
from torch_trainium.compile.program_piece import STORM
from torch_trainium.engines.programs import program_cache
from torch_trainium.errors import RecompileWarning


def programs(graph):
    return [len(piece.programs) for piece in graph.pieces]


def test_a_symbolic_graph_serves_every_size(graphs):
    function = torch.compile(lambda x: (x * x.shape[0]).flatten().cumsum(0), dynamic=True)
    for n in (2, 5, 3, 5):
        x = torch.randn(n, 3, device="neuron")
        torch.testing.assert_close(function(x).cpu(), (x.cpu() * n).flatten().cumsum(0))
    assert len(graphs) == 1
    assert programs(graphs[0]) == [3]


def test_a_second_size_makes_the_graph_symbolic(graphs):
    function = torch.compile(lambda x: torch.cat([x, x.exp()]).sum(0), fullgraph=True)
    for n in (2, 3, 4, 5):
        x = torch.randn(n, 3, device="neuron")
        torch.testing.assert_close(function(x).cpu(), torch.cat([x, x.exp()]).sum(0).cpu())
    assert len(graphs) == 2


def test_training_on_sequences_of_changing_length(graphs):
    model = Gpt().to("neuron")
    compiled = torch.compile(model, dynamic=True, fullgraph=True)
    for length in (4, 7, 5):
        tokens = torch.randint(17, (2, length), device="neuron")
        compiled(tokens).logsumexp(-1).sum().backward()
        given = model.head.weight.grad.cpu()
        model.zero_grad()
        model(tokens).logsumexp(-1).sum().backward()
        torch.testing.assert_close(given, model.head.weight.grad.cpu())
        model.zero_grad()
    assert len(graphs) == 2


def test_programs_are_bounded_and_the_last_used_stay(graphs):
    options = {"max_programs": 2}
    function = torch.compile(lambda x: x + 1, backend="neuron", dynamic=True, options=options)
    for n in (2, 3, 2, 4, 2):
        function(torch.ones(n, device="neuron"))
    (piece,) = graphs[0].pieces
    assert [compiled.inputs[-1].shape for compiled in piece.programs] == [(4,), (2,)]
    assert piece.compiles == 3


def test_a_storm_of_shapes_names_the_dimension_and_the_line():
    function = torch.compile(lambda x: x.sin() + 1, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecompileWarning)
        for n in range(2, STORM + 1):
            function(torch.ones(3, n, device="neuron"))
    with pytest.warns(RecompileWarning, match=r"dimension 1 of .* \(8, then 9\).*test_shapes\.py"):
        function(torch.ones(3, STORM + 1, device="neuron"))


def greedy_tokens(model, run, device, count):
    """What a model says after a prompt of three tokens, one token after the other."""
    tokens = torch.tensor([3, 1, 4], device=device)
    positions = torch.arange(3, device=device)
    found = []
    with torch.no_grad():
        for _ in range(count):
            tokens = run(tokens, positions).argmax(keepdim=True)
            positions = positions[-1:] + 1
            found.append(int(tokens.item()))
    return found


def test_a_llama_with_a_static_cache_decodes_256_tokens_in_two_programs(graphs):
    """One for the prompt and one for a token; the tokens are the CPU's."""
    model = Llama()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    expected = greedy_tokens(model, model, "cpu", 256)
    model.cache.zero_()
    compiled = torch.compile(model.to("neuron"), fullgraph=True, dynamic=False)
    before = greedy_tokens(model, compiled, "neuron", 2)
    compiles = program_cache().statistics.compiles
    model.cache.zero_()
    assert greedy_tokens(model, compiled, "neuron", 256) == expected
    assert before == expected[:2]
    assert len(set(expected)) > 16
    assert [programs(graph) for graph in graphs] == [[1], [1]]
    assert program_cache().statistics.compiles == compiles
