"""A process that finds plans on disk writes no program, and plans are checked when read."""

import dataclasses
import json

import pytest
import torch

from tests.python_process import output_of
from torch_trainium.eager import plans
from torch_trainium.engines.engine import Buffer, Signature
from torch_trainium.lowering.call import Call, Tensor
from torch_trainium.lowering.numbers import NumberArgument
from torch_trainium.lowering.program import Given, OperatorProgram, Result
from torch_trainium.lowering.windows import Window

aten = torch.ops.aten

WINDOW = Window(torch.float32, (2, 3), (3, 1), 1)
PLAN = OperatorProgram(
    None,
    Signature((Buffer("f32", (7,)),), ("f32", "ui32"), (Buffer("f32", (7,)),), True),
    (0,),
    (
        NumberArgument((0,), torch.float32),
        NumberArgument((), torch.uint32, "seed_low"),
    ),
    4,
    (Result(0, WINDOW), Result(None, WINDOW, resized=True, is_output=False)),
    (0, None, [1, 0], Given(3), Given(True)),
    ((IndexError, "out of range"),),
)

TRAINS = """
import sys
import torch
from torch_trainium import eager

layer = torch.nn.Linear(8, 8).to("neuron")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
torch.nn.functional.dropout(layer(torch.ones(4, 8, device="neuron"))).square().mean().backward()
optimizer.step()
found = eager.program_statistics()
print(found.compiles, found.disk_hits, "jaxlib.mlir" in sys.modules)
print(float(layer.weight.isfinite().all()))
"""


def call(shape: tuple[int, ...] = (2, 3), **arguments: object) -> Call:
    window = Window(torch.float32, shape, (3, 1))
    return Call(aten.sum.dim_IntList, {"self": Tensor(0, window), "dim": [1], **arguments}, ())


def test_a_plan_survives_the_disk() -> None:
    assert plans.decoded(plans.encoded(PLAN, "key")) == (PLAN, "key")


@pytest.mark.parametrize(
    "change",
    [
        {"positions_of_inputs": ["0"]},
        {"positions_of_inputs": [True]},
        {"numbers": ["f33", "ui32"]},
        {"number_sources": [[[0], "float32", "eval"]]},
        {"checks": [["SystemExit", ""]]},
        {"results": [[0, "float32", [2], [1]]]},
        {"inputs": None},
        {"program": 7},
    ],
)
def test_a_plan_of_another_form_is_refused(change: dict[str, object]) -> None:
    row = json.loads(plans.encoded(PLAN, "key")) | change
    with pytest.raises(ValueError, match="not a plan"):
        plans.decoded(json.dumps(row).encode())


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not a plan"):
        plans.decoded(b"\x80\x04K\x01.")


def test_the_key_says_all_that_a_plan_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        plans.plan_key(call(), "engine"),
        plans.plan_key(call(), "another engine"),
        plans.plan_key(call(shape=(3, 3)), "engine"),
        plans.plan_key(call(keepdim=True), "engine"),
        plans.plan_key(call(keepdim=1), "engine"),
        plans.plan_key(dataclasses.replace(call(), overload=aten.mean.dim), "engine"),
    }
    monkeypatch.setattr(plans, "lowering_fingerprint", lambda: "other sources")
    keys.add(plans.plan_key(call(), "engine"))
    assert len(keys) == 7


def test_a_warm_process_compiles_nothing_and_loads_no_mlir(tmp_path) -> None:
    environ = {"TORCH_TRAINIUM_EAGER": "compiled", "TORCH_TRAINIUM_CACHE": str(tmp_path)}
    cold = output_of(TRAINS, environ=environ).split()
    warm = output_of(TRAINS, environ=environ).split()
    assert int(cold[0]) > 5
    assert cold[2:] == ["True", "1.0"]
    assert warm[0] == "0"
    assert int(warm[1]) >= int(cold[0])
    assert warm[2:] == ["False", "1.0"]


def test_damaged_plans_are_written_again(tmp_path) -> None:
    environ = {"TORCH_TRAINIUM_EAGER": "compiled", "TORCH_TRAINIUM_CACHE": str(tmp_path)}
    output_of(TRAINS, environ=environ)
    for path in tmp_path.glob("*.plan"):
        path.write_bytes(path.read_bytes()[:-3])
    assert output_of(TRAINS, environ=environ).split()[3] == "1.0"
    assert output_of(TRAINS, environ=environ).split()[0] == "0"
