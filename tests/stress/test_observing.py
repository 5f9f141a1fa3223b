"""Counts, logs and anomaly mode in programs larger than one operator."""

import warnings
from pathlib import Path

import pytest
import torch

from tests.python_process import run_python

SCRIPT = """import torch, torch_trainium
layer = torch.nn.Linear(3, 2).to("neuron")
def model(x):
    return torch.nn.functional.softplus(layer(x))
loss = model(torch.ones(4, 3, device="neuron")).sum()
loss.backward()
"""


def test_counts_are_those_of_a_known_program() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    layers.to("neuron")
    data = torch.ones(2, 4, device="neuron")
    torch.neuron.reset_executed_ops()
    for _ in range(3):
        layers(data).sum().backward()
    counts = torch.neuron.executed_ops()
    assert counts["aten::addmm"] == 6
    assert counts["aten::relu"] == 3
    assert counts["aten::threshold_backward"] == 3
    assert counts["aten::mm"] == 9


def test_shapes_cover_operators_of_the_backward_thread() -> None:
    x = torch.ones(2, 3, device="neuron", requires_grad=True)
    torch.neuron.reset_executed_ops()
    with torch.neuron.record_op_shapes():
        x.tanh().sum().backward()
    shapes = torch.neuron.executed_op_shapes()
    assert shapes["aten::tanh"] == {"Float[2, 3]": 1}
    assert shapes["aten::tanh_backward"] == {"Float[2, 3], Float[2, 3]": 1}


def test_the_log_names_the_line_of_the_users_file(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    code = f"import runpy; runpy.run_path({str(script)!r})"
    done = run_python(code, environ={"TORCH_TRAINIUM_LOG_OPS": "1"})
    assert done.returncode == 0, done.stderr
    lines = {
        line.split("(")[0].split()[-1]: line.rpartition(" at ")[2]
        for line in done.stderr.splitlines()
        if " at " in line
    }
    assert lines["aten::addmm"] == f"{script}:4"
    assert lines["aten::softplus"] == f"{script}:4"
    assert lines["aten::softplus_backward"] == f"{script}:6"


def test_anomaly_mode_names_the_forward_operator() -> None:
    x = torch.zeros(2, device="neuron", requires_grad=True)
    with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly():
        warnings.simplefilter("always")
        y = (x.sqrt() * 0).sum()
        with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan"):
            y.backward()
    traces = [str(warning.message) for warning in caught]
    assert any("x.sqrt()" in trace for trace in traces)
