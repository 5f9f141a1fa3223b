import pytest
import torch

from torch_trainium.compile import explain
from torch_trainium.errors import GraphCutWarning


def test_an_explanation_names_graphs_breaks_and_lines():
    def function(x):
        y = x @ x
        torch._dynamo.graph_break()
        return y.sin()

    found = explain(function, torch.ones(4, 4, device="neuron"))
    assert [graph.operators for graph in found.graphs] == [1, 1]
    assert [graph.programs for graph in found.graphs] == [1, 1]
    (broken,) = found.breaks
    assert "test_explanation.py" in broken.line
    assert all("test_explanation.py" in graph.line for graph in found.graphs)
    assert found.peak_bytes >= 4 * 4 * 4 * 2
    for graph in found.graphs:
        assert set(graph.predicted_us) == {"trn2", "trn3"}
        assert min(graph.predicted_us.values()) > 0
    assert "2 graphs, 1 breaks" in str(found)


def test_an_explanation_names_operators_without_a_program():
    def function(x):
        return (x + 1).nonzero().sum()

    with (
        pytest.warns(GraphCutWarning),
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
    ):
        found = explain(function, torch.ones(3, device="neuron"))
    ((name, line, _),) = found.graphs[0].refusals
    assert name == "aten::nonzero"
    assert "test_explanation.py" in line


def test_predicted_time_grows_with_the_work():
    def predicted(n):
        graph = explain(lambda x: x @ x, torch.ones(n, n, device="neuron")).graphs[0]
        return graph.predicted_us["trn2"]

    assert predicted(512) > predicted(64)
