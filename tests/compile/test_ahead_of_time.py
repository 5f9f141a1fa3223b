"""Exported programs on the device, and packages of them."""

import copy

import pytest
import torch
from torch.export import Dim, export

from tests.compile.models import Gpt, conv_net, mlp
from tests.python_process import output_of
from torch_trainium.compile import AheadOfTime, load_package


@pytest.mark.parametrize(
    ("make", "sample"),
    [(mlp, lambda: torch.randn(5, 8)), (Gpt, lambda: torch.randint(17, (2, 8)))],
)
def test_an_exported_program_gives_what_the_module_gives(make, sample):
    model, x = make(), sample()
    expected = model(x)
    run = AheadOfTime(export(model.to("neuron"), (x.to("neuron"),)))
    torch.testing.assert_close(run(x.to("neuron")).cpu(), expected)


def test_buffers_and_inputs_are_changed_in_place():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            x.mul_(2)
            return {"sum": x.sum() + self.count, "x": [x + 1]}

    model = Counting().to("neuron")
    run = AheadOfTime(export(copy.deepcopy(model), (torch.ones(3, device="neuron"),)))
    for step in (1, 2):
        x = torch.ones(3, device="neuron")
        given = run(x)
        assert x.tolist() == [2.0] * 3
        assert given["sum"].item() == 6 + step
        assert given["x"][0].tolist() == [3.0] * 3


def test_a_dynamic_dimension_has_a_program_for_each_size():
    model = mlp().to("neuron")
    x = torch.randn(5, 8, device="neuron")
    run = AheadOfTime(export(model, (x,), dynamic_shapes=({0: Dim("batch")},)))
    for n in (5, 3, 5):
        x = torch.randn(n, 8, device="neuron")
        torch.testing.assert_close(run(x), model(x).detach())


def test_other_arguments_are_refused():
    x = torch.randn(5, 8, device="neuron")
    run = AheadOfTime(export(mlp().to("neuron"), (x,)))
    with pytest.raises(ValueError, match="was exported for arguments like"):
        run(x, x)


def test_an_exported_module_may_be_compiled(graphs):
    model, x = mlp(), torch.randn(5, 8)
    expected = model(x)
    compiled = torch.compile(export(model.to("neuron"), (x.to("neuron"),)).module())
    torch.testing.assert_close(compiled(x.to("neuron")).cpu(), expected)
    assert [len(graph.pieces) for graph in graphs] == [1]


LOAD = """
import torch
from torch_trainium.compile import load_package
from torch_trainium.engines.programs import program_cache
run = load_package({path!r})
x = torch.ones(2, 3, 8, 8, device="neuron")
print(run(x).sum().item())
assert program_cache().statistics.compiles == 0, program_cache().statistics
assert not torch._dynamo.utils.counters["stats"]
"""


def test_a_package_runs_in_another_process_without_compiling(tmp_path):
    model = conv_net().eval().to("neuron")
    x = torch.ones(2, 3, 8, 8, device="neuron")
    run = AheadOfTime(export(model, (x,)))
    expected = run(x).sum().item()
    path = str(tmp_path / "package.zip")
    run.save(path)
    assert load_package(path)(x).sum().item() == expected
    cache = str(tmp_path / "new cache")
    printed = output_of(LOAD.format(path=path), environ={"TORCH_TRAINIUM_CACHE": cache})
    assert float(printed.splitlines()[-1]) == pytest.approx(expected)
