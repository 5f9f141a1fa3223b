"""What a timeline scope records: totals, modules, the user's lines."""

import inspect

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from torch_trainium.neuron.virtual_time import timeline


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(16, 16)

    def forward(self, x):
        return self.project(x).relu()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sum()


@pytest.fixture
def network():
    return Network().to("neuron")


@pytest.fixture
def batch():
    return torch.ones(4, 16, device="neuron")


def line_of(function, text):
    """Where `text` stands in the source of `function`, as a record names it."""
    source, first = inspect.getsourcelines(function)
    (offset,) = [number for number, line in enumerate(source) if text in line]
    return f"{__file__}:{first + offset} ({function.__name__})"


def test_records_name_the_module_and_the_line(network, batch):
    with timeline() as scope:
        network(batch)
    modules = [record.module for record in scope.snapshot.records]
    assert modules == [
        "Network.blocks.0.project",
        "Network.blocks.0",
        "Network.blocks.1.project",
        "Network.blocks.1",
        "Network",
    ]
    lines = {record.line for record in scope.snapshot.records}
    assert lines == {
        line_of(Block.forward, "self.project(x).relu()"),
        line_of(Network.forward, "return x.sum()"),
    }


def test_backward_work_belongs_to_the_forward_line_and_module(network, batch):
    with timeline() as scope:
        loss = network(batch)
        loss.backward()
    backward = [r for r in scope.snapshot.records if r.is_backward and r.operator == "aten::mm"]
    assert backward
    assert {record.line for record in backward} == {line_of(Block.forward, "self.project(x)")}
    assert {record.module for record in backward} == {
        "Network.blocks.0.project",
        "Network.blocks.1.project",
    }


def test_backward_work_of_a_view_belongs_to_the_operator_before_it(batch):
    with timeline() as scope:
        leaf = batch.clone().requires_grad_()
        (leaf * 2).select(0, 1).sum().backward()
    backward = [record for record in scope.snapshot.records if record.is_backward]
    assert "aten::select_backward" in {record.operator for record in backward}
    assert all("test_timeline_scopes.py" in record.line for record in backward)


def test_recomputed_work_belongs_to_its_line_too(network, batch):
    def run(block, x):
        return checkpoint(block, x, use_reentrant=False)

    with timeline() as scope:
        run(network.blocks[0], batch.clone().requires_grad_()).sum().backward()
    backward = [r for r in scope.snapshot.records if r.is_backward and r.operator == "aten::mm"]
    assert backward
    assert all("test_timeline_scopes.py" in record.line for record in backward)


def test_an_exception_in_a_module_leaves_the_next_ones_named_right(network, batch):
    class Failing(nn.Module):
        def forward(self, x):
            raise KeyError(x + 1)

    with timeline() as scope:
        with pytest.raises(KeyError):
            Failing()(batch)
        network(batch)
        batch.add(1)
    records = scope.snapshot.records
    assert records[0].module == "Failing"
    assert records[1].module == "Network.blocks.0.project"
    assert records[-1].module == ""


def test_operators_add_up_to_the_records(network, batch):
    with timeline() as scope:
        network(batch).backward()
    records = scope.snapshot.records
    assert sum(total.calls for total in scope.operators.values()) == len(records)
    assert sum(total.device_ps for total in scope.operators.values()) == sum(
        record.duration_ps for record in records
    )


def test_totals_are_kept_always_and_start_again_after_a_reset(batch):
    timeline().reset()
    batch.add(1)
    batch.add(2)
    torch.mm(batch, batch.t())
    operators = timeline().operators
    assert operators["aten::add.Tensor"].calls == 2
    assert operators["aten::mm"].calls == 1
    assert operators["aten::mm"].device_ps > 0
    timeline().reset()
    assert not timeline().operators


def test_a_scope_and_the_totals_agree(network, batch):
    timeline().reset()
    with timeline() as scope:
        network(batch)
    assert scope.operators == timeline().operators


def test_a_snapshot_names_machine_and_profile(batch):
    with timeline() as scope:
        batch.add(1)
    snapshot = scope.snapshot
    assert snapshot.instance == "trn2.3xlarge"
    assert snapshot.chip == "trn2"
    assert snapshot.logical_core_size == 2
    assert snapshot.profile == "torchneuron-2.33"


def test_a_second_scope_inside_the_first_is_refused(batch):
    with timeline() as scope:
        with pytest.raises(RuntimeError, match="open already"), timeline():
            pass
        batch.add(1)
    assert len(scope.snapshot.records) == 1


def test_memory_in_use_is_that_of_the_device(batch):
    with timeline() as scope:
        kept = torch.zeros(1 << 20, device="neuron")
        batch.add(1)
    first, second = scope.snapshot.records
    assert second.allocated_bytes >= first.allocated_bytes
    assert second.allocated_bytes >= kept.numel() * 4


def test_an_empty_scope_has_no_records_and_no_time():
    with timeline() as scope:
        pass
    assert not scope.snapshot.records
    assert scope.elapsed_us == 0


def test_a_scope_that_ends_inside_a_module_leaves_the_next_one_alone(batch):
    class Closing(nn.Module):
        def forward(self, x):
            self.scope.__exit__(None, None, None)
            return x + 1

    module = Closing()
    module.scope = timeline()
    module.scope.__enter__()
    module(batch)
    with timeline() as scope:
        batch.add(1)
    assert [record.module for record in scope.snapshot.records] == [""]


def test_modules_may_define_equality_and_their_own_names(batch):
    class Equal(nn.Module):
        __hash__ = None

        def __init__(self):
            super().__init__()
            self.child = nn.ReLU()

        def __eq__(self, other):
            return isinstance(other, Equal)

        def named_modules(self, *args, **kwargs):
            return iter(())

        def forward(self, x):
            return self.child(x)

    with timeline() as scope:
        Equal()(batch)
        nn.Sequential(Equal())(batch)
    assert [r.module for r in scope.snapshot.records] == ["Equal.child", "Sequential.0.child"]


def test_compiled_modules_run_inside_a_scope(batch):
    compiled = torch.compile(
        nn.Sequential(nn.Linear(16, 16), nn.ReLU()).to("neuron"), backend="eager"
    )
    expected = compiled(batch)
    for _ in range(2):
        with timeline() as scope:
            assert torch.equal(compiled(batch), expected)
        assert "aten::relu" in {record.operator for record in scope.snapshot.records}


def test_a_file_name_may_hold_bytes_that_are_no_text(batch, tmp_path):
    names = {}
    exec(compile("def run(x):\n    return x + x\n", "/caf\udce9/train.py", "exec"), names)
    with timeline() as scope:
        names["run"](batch)
    (record,) = scope.snapshot.records
    assert record.line == r"/caf\udce9/train.py:2 (run)"
    torch.neuron.report(tmp_path / "report.html", scope, title="caf\udce9")
    assert (tmp_path / "report.html").stat().st_size > 0


def test_what_the_host_computes_is_a_fallback_whatever_its_class(batch):
    double = batch.double()
    with timeline() as scope:
        double * double
    assert set(scope.snapshot.fallbacks) == {"aten::mul.Tensor"}
