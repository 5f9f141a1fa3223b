"""Programs that end while the device is in use exit cleanly."""

import os

import pytest

from tests.python_process import run_python

TRAIN = """
import torch, torch_trainium
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
model.to("neuron")
model(torch.randn(32, 64, device="neuron")).sum().backward()
"""

ENDINGS = {
    "falling off the end": "",
    "sys.exit": "import sys; sys.exit(0)",
    "tensors in globals and cycles": "a = [torch.ones(10, device='neuron')]; a.append(a)",
    "backward at exit": (
        "import atexit; atexit.register(lambda: model(torch.ones(1, 64, device='neuron'))"
        ".sum().backward())"
    ),
    "events and streams": (
        "s = torch.neuron.Stream(); e = torch.neuron.Event(); e.record(s); s.wait_event(e)"
    ),
    "the operator log": "torch.neuron.set_op_log(True)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_exits_cleanly_after_backward(ending: str) -> None:
    done = run_python(f"{TRAIN}\n{ENDINGS[ending]}\n")
    assert done.returncode == 0, done.stderr


def test_ending_right_after_backward_is_no_race() -> None:
    # Whole processes, one at a time: beside others, and in forked copies, the race hides.
    runs = int(os.environ.get("STRESS_RUNS", "8"))
    codes = [run_python(TRAIN).returncode for _ in range(runs)]
    assert codes == [0] * runs


def test_exception_ends_with_its_own_exit_code() -> None:
    done = run_python(f"{TRAIN}\nraise SystemExit(3)")
    assert done.returncode == 3
    failed = run_python(f"{TRAIN}\nraise ValueError('mine')")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == "ValueError: mine"


def test_forked_child_of_a_trained_process_exits_at_once() -> None:
    code = f"""{TRAIN}
import os, sys, time
start = time.monotonic()
pid = os.fork()
if pid == 0:
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), time.monotonic() - start < 5)
"""
    assert run_python(code).stdout.split() == ["5", "True"]


def test_memory_of_the_parent_outlives_a_forked_child() -> None:
    code = """
import os, sys, torch, torch_trainium
kept = torch.arange(100000., device="neuron")
pid = os.fork()
if pid == 0:
    del kept
    sys.exit(0)
os.waitpid(pid, 0)
print((kept == torch.arange(100000.).to("neuron")).all().item())
"""
    done = run_python(code)
    assert done.stdout.split() == ["True"], done.stderr
