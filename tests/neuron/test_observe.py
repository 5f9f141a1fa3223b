"""Counts of executed operators, their shapes, and the log."""

import threading

import torch

from tests.python_process import run_python
from torch_trainium.neuron import observe


def test_counts_every_execution_and_resets() -> None:
    x = torch.ones(3, device="neuron")
    torch.neuron.reset_executed_ops()
    for _ in range(5):
        x = x + 1
    x.mul_(2)
    counts = torch.neuron.executed_ops()
    assert counts["aten::add.Tensor"] == 5
    assert counts["aten::mul_.Tensor"] == 1
    torch.neuron.reset_executed_ops()
    assert torch.neuron.executed_ops() == {}


def test_host_work_is_not_counted() -> None:
    torch.neuron.reset_executed_ops()
    torch.ones(3) + 1
    assert torch.neuron.executed_ops() == {}


def test_counts_from_many_threads_add_up() -> None:
    x = torch.ones(3, device="neuron")
    torch.neuron.reset_executed_ops()
    threads = [threading.Thread(target=lambda: [x + 1 for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.neuron.executed_ops()["aten::add.Tensor"] == 800


def test_shapes_are_recorded_inside_the_block_only() -> None:
    a, b = torch.ones(2, 3, device="neuron"), torch.ones(3, 4, device="neuron")
    torch.neuron.reset_executed_ops()
    a @ b
    with torch.neuron.record_op_shapes():
        a @ b
        a @ b
    a @ b
    assert torch.neuron.executed_op_shapes()["aten::mm"] == {"Float[2, 3], Float[3, 4]": 2}


def test_caller_is_the_line_outside_torch() -> None:
    seen = []

    def look(name: str, operands: str) -> None:
        seen.append((name, observe.caller_of_op()))

    x = torch.ones(2, device="neuron")
    observe._C.set_op_log(look)
    try:
        torch.nn.functional.gelu(x)
    finally:
        torch.neuron.set_op_log(False)
    ((name, where),) = seen
    assert name == "aten::gelu"
    assert where.startswith(f"{__file__}:")


LOGGED = """
import torch, torch_trainium
x = torch.ones(1, 2, device="neuron", requires_grad=True)
y = torch.nn.Linear(2, 2).to("neuron")(x)
torch.cos(y).sum().backward()
"""


def test_variable_logs_operators_with_the_users_line() -> None:
    done = run_python(LOGGED, environ={"TORCH_TRAINIUM_LOG_OPS": "1"})
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    forward = [line for line in lines if "aten::cos(" in line]
    backward = [line for line in lines if "aten::sin(" in line]
    assert forward == ["[torch_trainium] aten::cos(Float[1, 2]) at <string>:5"]
    assert backward
    assert all(line.endswith(" at <string>:5") for line in backward)


def test_nothing_is_logged_unasked() -> None:
    assert run_python(LOGGED).stderr == ""


def test_log_survives_an_exception_in_the_operator() -> None:
    done = run_python(
        "import torch, torch_trainium\n"
        "torch.neuron.set_op_log(True)\n"
        "a = torch.ones(2, 3, device='neuron')\n"
        "try:\n"
        "    a @ a\n"
        "except RuntimeError as error:\n"
        "    print('shapes' in str(error))\n"
        "print((a + 1).sum().item())"
    )
    assert done.stdout.split() == ["True", "12.0"]


def test_profile_reports_operators_of_the_device() -> None:
    with torch.neuron.profiler.profile() as profile:
        torch.ones(2, 2, device="neuron").exp()
    assert "aten::exp" in {event.key for event in profile.key_averages()}
