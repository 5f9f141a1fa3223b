"""Branches and loops as part of a program: PyTorch's higher-order operators."""

import pytest
import torch
from functorch.experimental.control_flow import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from torch_trainium.compile import explain
from torch_trainium.compile.program_piece import ProgramPiece
from torch_trainium.errors import FallbackError, GraphCutWarning


def compiled(function):
    return torch.compile(function, fullgraph=True)


def expect_one_program(graphs):
    for graph in graphs:
        assert [type(piece) for piece in graph.pieces] == [ProgramPiece]


def branch(x, y):
    return torch.cond(
        x.sum() > 0, lambda x, y: (x.sin() @ y, x + 1), lambda x, y: (x.cos() @ y, x - 1), (x, y)
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_cond_gives_what_the_branch_taken_gives(sign, graphs):
    x, y = torch.rand(3, 3) * sign, torch.rand(3, 3)
    given = compiled(branch)(x.to("neuron"), y.to("neuron"))
    for actual, expected in zip(given, branch(x, y), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)
    expect_one_program(graphs)


@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_go_through_the_branch_taken(sign, graphs):
    def gradients(device, run):
        x = (torch.arange(1.0, 5.0) * sign).to(device).requires_grad_()
        run(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))(x).sum().backward()
        return x.grad.cpu()

    torch.testing.assert_close(gradients("neuron", compiled), gradients("cpu", lambda f: f))
    expect_one_program(graphs)


def test_nested_branches():
    def function(x):
        return torch.cond(
            x.sum() > 0,
            lambda x: torch.cond(x[0] > 1, torch.sin, torch.cos, (x,)),
            lambda x: x * 2,
            (x,),
        )

    run = compiled(function)
    for first in (2.0, 0.5, -9.0):
        x = torch.tensor([first, 1.0])
        torch.testing.assert_close(run(x.to("neuron")).cpu(), function(x))


def test_an_error_of_the_branch_not_taken_is_none():
    def function(table, index):
        return torch.cond(
            (index < 4).all(), lambda t, i: t[i], lambda t, i: t[i * 0], (table, index)
        )

    table = torch.arange(4.0, device="neuron")
    run = compiled(function)
    for index, expected in ((2, 2.0), (9, 0.0)):
        assert run(table, torch.tensor([index], device="neuron")).item() == expected
    with pytest.raises(IndexError):
        run(table, torch.tensor([-5], device="neuron"))


def test_random_numbers_in_a_branch_cut_the_graph():
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), torch.cos, (x,))

    x = torch.ones(3, device="neuron")
    torch.neuron.manual_seed(1)
    with pytest.warns(GraphCutWarning, match="random numbers inside of control flow"):
        given = compiled(function)(x)
    torch.neuron.manual_seed(1)
    torch.testing.assert_close(given.cpu(), function(x).cpu())


def test_a_fallback_in_a_branch_is_one():
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: torch.fft.fft(x).abs(), torch.cos, (x,))

    x = torch.ones(3, device="neuron")
    with (
        torch.neuron.fallback_is("allow"),
        pytest.warns(GraphCutWarning, match="cond .*aten::_fft_r2c in its body: NCC_EVRF001"),
    ):
        torch.testing.assert_close(compiled(function)(x).cpu(), function(x.cpu()))
    with torch.neuron.fallback_is("error"), pytest.raises(FallbackError):
        compiled(function)(x)


def accumulate(init, xs):
    return scan(lambda c, x: (c * 0.5 + x, (c + x).sin()), init, xs)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_scan_is_a_loop(length, graphs):
    init, xs = torch.randn(3), torch.randn(length, 3)
    given = compiled(accumulate)(init.to("neuron"), xs.to("neuron"))
    for actual, expected in zip(given, accumulate(init, xs), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)
    expect_one_program(graphs)


def test_gradients_go_through_a_scan(graphs):
    def gradients(device, run):
        torch.manual_seed(0)
        init = torch.randn(3).to(device).requires_grad_()
        xs = torch.randn(5, 3).to(device).requires_grad_()
        last, all_ = run(accumulate)(init, xs)
        (last.sum() + all_.square().sum()).backward()
        return init.grad.cpu(), xs.grad.cpu()

    torch.testing.assert_close(gradients("neuron", compiled), gradients("cpu", compiled_on_cpu))
    expect_one_program(graphs)


def compiled_on_cpu(function):
    return torch.compile(function, backend="aot_eager")


def test_an_index_out_of_range_in_a_loop_raises():
    def function(table, rows):
        return scan(lambda c, i: (c + table[i].sum(), table[i] * 2), table.sum(), rows)[1]

    table = torch.arange(4.0, device="neuron")
    run = compiled(function)
    assert run(table, torch.tensor([[1], [3]], device="neuron")).flatten().tolist() == [2.0, 6.0]
    with pytest.raises(IndexError):
        run(table, torch.tensor([[1], [9]], device="neuron"))


def test_map_is_a_loop(graphs):
    def function(xs, y):
        return map_over(lambda x, y: (x @ y).relu(), xs, y)

    xs, y = torch.randn(4, 2, 3), torch.randn(3, 2)
    given = compiled(function)(xs.to("neuron"), y.to("neuron"))
    torch.testing.assert_close(given.cpu(), function(xs, y))
    expect_one_program(graphs)


def test_a_loop_is_charged_for_every_step():
    def predicted(length):
        torch._dynamo.reset()
        found = explain(
            accumulate,
            torch.zeros(256, 256, device="neuron"),
            torch.zeros(length, 256, 256, device="neuron"),
        )
        return found.graphs[0].predicted_us["trn2"]

    assert predicted(40) / predicted(4) == pytest.approx(10, rel=0.3)


def test_while_loop_runs_operator_by_operator():
    def function(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0 * x[0].int(), x))[1]

    x = torch.ones(3, device="neuron")
    with pytest.warns(GraphCutWarning, match="while_loop"):
        assert compiled(function)(x).cpu().tolist() == [8.0] * 3


def test_a_region_compiled_once_is_part_of_the_program(graphs):
    @torch.compiler.nested_compile_region
    def layer(x):
        return x.sin() @ x

    def function(x):
        return layer(layer(x))

    x = torch.randn(3, 3)
    torch.testing.assert_close(compiled(function)(x.to("neuron")).cpu(), function(x))
    expect_one_program(graphs)
