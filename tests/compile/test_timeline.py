"""Compiled graphs on the virtual timeline and in device memory."""

import torch

from tests.compile.models import Block
from torch_trainium.compile import explain


def elapsed_ms(function, x):
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    torch.neuron.synchronize()
    start.record()
    function(x)
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def block_and_input():
    return Block(16, 2).to("neuron").requires_grad_(False), torch.randn(2, 8, 16, device="neuron")


def test_a_run_is_one_unit_of_work(graphs):
    block, x = block_and_input()
    compiled = torch.compile(block, fullgraph=True)
    compiled(x)
    torch.neuron.reset_executed_ops()
    compiled(x)
    assert torch.neuron.executed_ops() == {graphs[0].name: 1}


def test_a_graph_takes_less_time_than_its_operators_one_by_one():
    block, x = block_and_input()
    compiled = torch.compile(block, fullgraph=True)
    compiled(x)
    assert 0 < elapsed_ms(compiled, x) < elapsed_ms(block, x) / 5


def test_the_time_is_the_launch_and_what_is_predicted():
    x = torch.randn(512, 512, device="neuron")
    function = lambda x: torch.softmax(x @ x, -1)  # noqa: E731
    predicted_us = explain(function, x).graphs[0].predicted_us["trn2"]
    compiled = torch.compile(function)
    compiled(x)
    first = elapsed_ms(compiled, x)
    assert first * 1e3 > predicted_us
    twice = elapsed_ms(lambda x: [compiled(x), compiled(x)], x)
    assert twice > first


def test_the_same_run_takes_the_same_time():
    block, x = block_and_input()
    compiled = torch.compile(block)
    compiled(x)
    assert elapsed_ms(compiled, x) == elapsed_ms(compiled, x)


def test_memory_of_the_program_counts_while_it_runs_and_is_given_back():
    x = torch.randn(256, 256, device="neuron")
    compiled = torch.compile(lambda x: ((x @ x) @ (x.t() @ x)).sum())
    compiled(x)
    before = torch.neuron.memory_allocated()
    torch.neuron.reset_peak_memory_stats()
    result = compiled(x)
    assert torch.neuron.max_memory_allocated() >= before + x.nbytes
    del result
    assert torch.neuron.memory_allocated() == before


def test_inputs_are_freed_when_nothing_needs_them():
    x = torch.randn(64, 64, device="neuron", requires_grad=True)
    y = torch.compile(lambda x: (x.sin() @ x).sum())(x)
    held = torch.neuron.memory_allocated()
    y.backward()
    del y
    x.grad = None
    assert torch.neuron.memory_allocated() < held
