"""What PyTorch programs do to tensors, inside of compiled functions: as eager mode does it."""

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from tests.compile.models import mlp


def compiled(function):
    return torch.compile(function, fullgraph=True)


def test_an_input_is_changed_in_place():
    x = torch.ones(2, 3, device="neuron")
    compiled(lambda x, y: x.add_(y).mul_(2))(x, torch.full((3,), 2.0, device="neuron"))
    assert x.cpu().tolist() == [[6.0] * 3] * 2


def test_a_strided_input_is_changed_in_place_and_its_surroundings_are_not():
    base = torch.arange(24.0, device="neuron").view(4, 6)
    expected = torch.arange(24.0).view(4, 6)
    compiled(lambda x: x.neg_())(base[1::2, ::3])
    expected[1::2, ::3].neg_()
    assert torch.equal(base.cpu(), expected)


def test_views_of_inputs_share_their_memory():
    x = torch.randn(4, 3, device="neuron")
    flat, tail = compiled(lambda x: (x.view(-1), x[1:].t()))(x)
    assert flat.data_ptr() == x.data_ptr()
    assert tail.data_ptr() == x[1:].data_ptr()
    assert tail.stride() == (1, 3)


def test_a_view_in_another_dtype_is_a_result_of_its_own():
    function = lambda x: torch.view_as_real(torch.complex(x, x + 1))[1]  # noqa: E731
    x = torch.randn(3, device="neuron")
    with torch.neuron.fallback_is("allow"):
        torch.testing.assert_close(compiled(function)(x).cpu(), function(x.cpu()))


def test_views_of_one_result_share_its_memory():
    def function(x):
        y = x * 2
        return y, y.view(-1), y[0]

    y, flat, row = compiled(function)(torch.ones(2, 3, device="neuron"))
    flat.fill_(7)
    assert y.cpu().tolist() == [[7.0] * 3] * 2
    assert row.cpu().tolist() == [7.0] * 3


def test_results_have_the_strides_of_eager_mode():
    x = torch.randn(2, 3, 4, 5, device="neuron").to(memory_format=torch.channels_last)
    function = lambda x: (x.relu(), x.transpose(1, 2).exp())  # noqa: E731
    for given, wanted in zip(compiled(function)(x), function(x), strict=True):
        assert given.stride() == wanted.stride()
        torch.testing.assert_close(given.cpu(), wanted.cpu())


@pytest.mark.parametrize("offset", [0, 1, 7])
def test_inputs_are_read_wherever_they_lie(offset):
    base = torch.randn(100, device="neuron")
    x = base[offset : offset + 36].view(6, 6).t()[::2]
    torch.testing.assert_close(compiled(lambda x: x.cumsum(0))(x).cpu(), x.cpu().cumsum(0))


def test_views_in_place_of_a_new_tensor():
    function = lambda x: (x * 2).squeeze_(0).t_().unsqueeze_(-1).transpose_(0, 1)  # noqa: E731
    x = torch.randn(1, 3, 4, device="neuron")
    given, wanted = compiled(function)(x), function(x)
    assert given.stride() == wanted.stride()
    torch.testing.assert_close(given.cpu(), wanted.cpu())


def test_the_same_tensor_may_be_two_inputs():
    x = torch.ones(3, device="neuron")
    assert compiled(lambda a, b: a.add_(1) + b)(x, x).cpu().tolist() == [4.0] * 3


def test_an_input_that_is_returned_is_itself():
    x = torch.ones(3, device="neuron")
    assert compiled(lambda x: (x, x + 1))(x)[0] is x


def test_empty_tensors_and_numbers_are_results():
    empty, size, total = compiled(lambda x: (x[:0] * 2, x.shape[0] + 1, x.sum()))(
        torch.ones(3, 2, device="neuron")
    )
    assert empty.shape == (0, 2)
    assert size == 4
    assert total.item() == 6


def test_a_zero_dim_cpu_tensor_is_a_number_that_compiles_nothing(graphs):
    function = compiled(lambda x, scale: x * scale)
    x = torch.ones(2, device="neuron")
    assert function(x, torch.tensor(2.5)).cpu().tolist() == [2.5, 2.5]
    assert function(x, torch.tensor(-1.0)).cpu().tolist() == [-1.0, -1.0]
    assert [piece.compiles for graph in graphs for piece in graph.pieces] == [1]


def test_a_python_number_that_changes_is_an_input(graphs):
    function = compiled(lambda x, scale: x * scale)
    x = torch.ones(2, device="neuron")
    for scale in (0.5, 1.5, 2.5, 3.5):
        assert function(x, scale).cpu().tolist() == [scale, scale]
    assert len(graphs) == 2


def test_an_index_out_of_range_raises():
    function = compiled(lambda table, i: table[i])
    table = torch.arange(4.0, device="neuron")
    with pytest.raises(IndexError):
        function(table, torch.tensor([1, 9], device="neuron"))
    assert function(table, torch.tensor([3], device="neuron")).item() == 3


def test_autocast_computes_in_its_dtype():
    model, x = mlp().to("neuron"), torch.randn(3, 8, device="neuron")

    def function(x):
        with torch.autocast("neuron", dtype=torch.bfloat16):
            return model[0](x)

    given = compiled(function)(x)
    assert given.dtype is torch.bfloat16
    torch.testing.assert_close(given.cpu(), function(x).cpu())


def test_a_checkpointed_block_has_the_gradients_of_a_plain_one():
    model, x = mlp().to("neuron"), torch.randn(3, 8, device="neuron")
    compiled(lambda x: checkpoint(model, x, use_reentrant=False).sum())(x).backward()
    given = [parameter.grad.cpu() for parameter in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for gradient, parameter in zip(given, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad.cpu())


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 3


def test_a_function_with_its_own_gradient():
    x = torch.randn(4, device="neuron", requires_grad=True)
    compiled(lambda x: Doubled.apply(x).sum())(x).backward()
    torch.testing.assert_close(x.grad.cpu(), (x * 3).detach().cpu())


def test_a_tensor_subclass_is_computed_part_by_part(graphs):
    parts = torch.randn(2, 3, 3, device="neuron")
    weight = torch.randn(3, 3, device="neuron", requires_grad=True)

    def gradient(run):
        weight.grad = None
        result = run(lambda a, b: (a @ b).sin())(
            TwoTensor(*(part.clone() for part in parts)), weight
        )
        result.sum().backward()
        return result.detach(), weight.grad

    for given, wanted in zip(gradient(compiled), gradient(lambda f: f), strict=True):
        assert isinstance(given, TwoTensor)
        torch.testing.assert_close((given.a, given.b), (wanted.a, wanted.b))
    assert [len(graph.pieces) for graph in graphs] == [1, 1]


def test_a_graph_break_leaves_two_graphs_that_agree_with_eager_mode(graphs):
    def function(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    x = torch.randn(4, device="neuron")
    torch.testing.assert_close(torch.compile(function)(x).cpu(), x.cpu().sin().cos())
    assert len(graphs) == 2


def test_buffers_and_constants_of_a_module():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.table = torch.tensor([1.0, 2.0, 3.0])

        def forward(self, x):
            self.count += 1
            return x * self.table.to(x.device) + torch.tensor([0.5, 0.25, 0.125], device=x.device)

    model = Scaled().to("neuron")
    function = compiled(model)
    for _ in range(2):
        given = function(torch.ones(3, device="neuron"))
    assert given.cpu().tolist() == [1.5, 2.25, 3.125]
    assert model.count.item() == 2


def test_compiled_autograd_compiles_the_backward_pass():
    model, x = mlp().to("neuron"), torch.randn(3, 8, device="neuron")

    def step():
        model(x).sum().backward()

    with torch._dynamo.config.patch(compiled_autograd=True):
        torch.compile(step)()
    given = [parameter.grad.cpu() for parameter in model.parameters()]
    model.zero_grad()
    step()
    for gradient, parameter in zip(given, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad.cpu())
