"""What is simplified in a graph: fewer operators, the same results."""

import pytest
import torch

from torch_trainium.compile import explain
from torch_trainium.compile.passes import PASSES

aten = torch.ops.aten


def outcome(function, *inputs, passes):
    torch._dynamo.reset()
    options = {"passes": passes}
    return torch.compile(function, backend="neuron", fullgraph=True, options=options)(*inputs)


def operators(graph):
    return [node.target for node in graph.module.graph.nodes if node.op == "call_function"]


def there_and_back(x):
    return x.bfloat16().float().bfloat16() + x.bfloat16()


def through_a_narrow_dtype(x):
    return x.bfloat16().float() + 1


def turned_back(x):
    return x.t().exp().t().transpose(0, 1).permute(1, 0).sin()


def turned_twice(x):
    return x.view(2, 2, 4).permute(1, 2, 0).permute(2, 0, 1).sin() + 1


def twice_the_same(x):
    return (x @ x).sin() + (x @ x).sin()


def nearly_the_same(x):
    return x * 1 + x * 1.0 + x[:2].sum() + x[:3].sum()


# function, pass: the operators with it and without
CASES = {
    "casts": (there_and_back, [3, 5]),
    "transpositions": (turned_back, [4, 6]),
    "common_subexpressions": (twice_the_same, [3, 5]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pass_leaves_fewer_operators_and_the_same_results(name, graphs):
    function, counts = CASES[name]
    x = torch.randn(4, 4, device="neuron")
    given = [outcome(function, x, passes=passes) for passes in ([name, "dead_code"], [])]
    assert torch.equal(*given)
    assert [len(operators(graph)) for graph in graphs] == counts


@pytest.mark.parametrize(
    "function",
    [
        there_and_back,
        through_a_narrow_dtype,
        turned_back,
        turned_twice,
        twice_the_same,
        nearly_the_same,
    ],
)
def test_all_passes_together_change_no_result(function):
    x = torch.randn(4, 4, device="neuron")
    assert torch.equal(outcome(function, x, passes=list(PASSES)), outcome(function, x, passes=[]))


def test_random_numbers_that_nobody_reads_are_drawn():
    def function(x):
        torch.rand_like(x)
        return torch.rand_like(x)

    x = torch.ones(8, device="neuron")
    torch.neuron.manual_seed(3)
    given = outcome(function, x, passes=list(PASSES))
    torch.neuron.manual_seed(3)
    assert torch.equal(given, outcome(function, x, passes=[]))


def test_a_conversion_that_loses_digits_stays(graphs):
    x = torch.randn(4, 4, device="neuron")
    outcome(through_a_narrow_dtype, x, passes=["casts"])
    assert operators(graphs[0]).count(aten._to_copy.default) == 2


def test_two_permutations_become_one(graphs):
    outcome(turned_twice, torch.randn(4, 4, device="neuron"), passes=["transpositions"])
    permutations = [t for t in operators(graphs[0]) if t is aten.permute.default]
    assert len(permutations) <= 1


def test_numbers_of_two_types_and_other_slices_are_not_the_same(graphs):
    x = torch.ones(4, 4, device="neuron")
    outcome(nearly_the_same, x, passes=["common_subexpressions"])
    assert operators(graphs[0]).count(aten.mul.Tensor) == 2
    assert operators(graphs[0]).count(aten.slice.Tensor) == 2


def test_random_numbers_are_drawn_twice():
    def function(x):
        return torch.rand_like(x), torch.rand_like(x) * 1

    first, second = outcome(function, torch.ones(8, device="neuron"), passes=list(PASSES))
    assert not torch.equal(first, second)


def test_results_stay_tensors_of_their_own():
    def function(x):
        return x + 1, x + 1, x.t().t() * 1

    first, second, _ = outcome(function, torch.ones(2, 2, device="neuron"), passes=list(PASSES))
    first.zero_()
    assert second.tolist() == [[2.0, 2.0]] * 2


def test_what_is_not_computed_is_not_charged():
    x = torch.randn(512, 512, device="neuron")
    twice = explain(twice_the_same, x).graphs[0].predicted_us["trn2"]
    once = explain(lambda x: (x @ x).sin() * 2, x).graphs[0].predicted_us["trn2"]
    assert twice < once * 1.2
