"""Graphs that are not one program: fallbacks, host tensors, transfers and refusals."""

import warnings

import pytest
import torch

from torch_trainium.compile.eager_piece import EagerPiece
from torch_trainium.compile.program_piece import ProgramPiece
from torch_trainium.engines import programs
from torch_trainium.errors import (
    FallbackWarning,
    GraphCompileError,
    GraphCutWarning,
    InputCopyWarning,
)


@torch.library.custom_op("torch_trainium_tests::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@tripled.register_fake
def _(x):
    return torch.empty_like(x)


def kinds(graph):
    return [type(piece) for piece in graph.pieces]


def test_a_custom_operator_runs_between_two_programs_and_says_so(graphs):
    function = torch.compile(lambda x: tripled(x + 1) * 2, fullgraph=True)
    with pytest.warns(GraphCutWarning, match=r"tripled.*test_pieces\.py:\d+ \(<lambda>\)"):
        assert function(torch.ones(2, device="neuron")).cpu().tolist() == [12.0, 12.0]
    assert kinds(graphs[0]) == [ProgramPiece, EagerPiece, ProgramPiece]
    (refusal,) = graphs[0].refusals
    assert refusal.node.target is torch.ops.torch_trainium_tests.tripled.default


def test_independent_operators_share_a_program(graphs):
    def function(x):
        a, b = tripled(x + 1), x.sin()
        return a * 2, tripled(b.cos())

    with pytest.warns(GraphCutWarning):
        torch.compile(function, fullgraph=True)(torch.ones(2, device="neuron"))
    assert kinds(graphs[0]) == [ProgramPiece, EagerPiece, ProgramPiece]


def test_a_refused_graph_names_operator_line_and_file(tmp_path):
    options = {"fallback": "error", "debug_folder": str(tmp_path)}
    function = torch.compile(lambda x: tripled(x + 1), backend="neuron", options=options)
    with pytest.raises(GraphCompileError) as raised:
        function(torch.ones(2, device="neuron"))
    (path,) = tmp_path.iterdir()
    for part in ("torch_trainium_tests::tripled", "test_pieces.py", str(path)):
        assert part in str(raised.value)
    assert "torch_trainium_tests.tripled" in path.read_text()


def test_a_graph_may_run_eagerly_instead(graphs):
    options = {"fallback": "eager"}
    function = torch.compile(lambda x: tripled(x + 1) * 2, backend="neuron", options=options)
    with pytest.warns(GraphCutWarning):
        assert function(torch.ones(2, device="neuron")).cpu().tolist() == [12.0, 12.0]
    assert kinds(graphs[0]) == [EagerPiece]


def test_a_transfer_inside_of_a_graph_warns_of_nothing():
    function = torch.compile(lambda x: x.to("neuron").exp().cpu() + 1, fullgraph=True)
    x = torch.randn(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = function(x)
    torch.testing.assert_close(given, x.exp() + 1)


def test_a_host_index_is_copied_with_a_warning_that_names_it():
    function = torch.compile(lambda table, rows: table[rows], fullgraph=True)
    table = torch.arange(6.0, device="neuron").view(3, 2)
    with pytest.warns(
        InputCopyWarning, match=r"reads rows, int64\[2\].*on the CPU.*test_pieces\.py"
    ):
        assert function(table, torch.tensor([2, 0])).cpu().tolist() == [[4.0, 5.0], [0.0, 1.0]]


def test_a_host_index_may_be_refused_or_allowed():
    table, rows = torch.arange(3.0, device="neuron"), torch.tensor([1])

    def run(choice):
        torch._dynamo.reset()
        options = {"cpu_inputs": choice}
        return torch.compile(lambda t, i: t[i], backend="neuron", options=options)(table, rows)

    with pytest.raises(RuntimeError, match="Move it to the device"):
        run("error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run("allow").item() == 1


def test_a_value_read_by_the_host_cuts_the_graph_at_the_read(graphs):
    def function(x):
        n = (x.sum() + 1).int().item()
        torch._check(n < 9)
        return x[:2] + n

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(function, fullgraph=True)
        assert compiled(torch.ones(3, device="neuron")).cpu().tolist() == [5.0] * 2
        assert compiled(torch.zeros(3, device="neuron")).cpu().tolist() == [1.0] * 2
    assert kinds(graphs[0]) == [ProgramPiece, EagerPiece, ProgramPiece]


def test_results_whose_shape_depends_on_data():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        function = torch.compile(lambda x: (x + 1).nonzero() * 2, fullgraph=True)
        with pytest.warns(GraphCutWarning, match="its shape depends on data"):
            given = function(torch.tensor([0.0, -1.0, 3.0], device="neuron"))
    assert given.cpu().tolist() == [[0], [4]]


@pytest.fixture
def broken_compiler(monkeypatch):
    def fail(*args):
        raise RuntimeError("the compiler is broken")

    monkeypatch.setattr(programs.program_cache(), "get", fail)


def test_a_failing_compiler_is_an_error_with_line_and_file(broken_compiler, tmp_path):
    options = {"debug_folder": str(tmp_path)}
    function = torch.compile(lambda x: x + 1, backend="neuron", options=options)
    with pytest.raises(GraphCompileError, match=r"test_pieces\.py:\d+.*compiler is broken"):
        function(torch.ones(2, device="neuron"))
    assert "aten.add" in next(tmp_path.iterdir()).read_text()


def test_a_failing_compiler_may_be_done_without(broken_compiler):
    function = torch.compile(lambda x: x + 1, backend="neuron", options={"fallback": "eager"})
    with pytest.warns(FallbackWarning, match="compiler is broken.*runs eagerly"):
        assert function(torch.ones(2, device="neuron")).cpu().tolist() == [2.0, 2.0]
