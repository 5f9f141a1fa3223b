"""Interpreters that end in odd states exit with the code they mean to."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.python_process import run_python

BEGIN = """
import atexit, gc, os, sys, threading, time, weakref
import torch, torch_trainium
x = torch.ones(64, 64, device="neuron", requires_grad=True)
def train():
    (x @ x).tanh().sum().backward()
train()
"""
WORKER = "\ndef work():\n    while True: train()\n"

STATES = {
    "a thread that outlives the main one": (
        "threading.Thread(target=lambda: (time.sleep(0.2), train())).start()"
    ),
    "tensors kept by a thread's locals": (
        "held = threading.local()\n"
        "def work():\n    held.x = x * 2; time.sleep(0.1)\n"
        "threading.Thread(target=work).start()"
    ),
    "work in atexit and in finalizers": (
        "atexit.register(train)\n"
        "class Holder: pass\n"
        "holder = Holder()\nweakref.finalize(holder, train)"
    ),
    "tensors in __del__ at shutdown": (
        "class Holder:\n"
        "    def __init__(self): self.x = x * 2; self.me = self\n"
        "    def __del__(self): self.x.add_(1)\n"
        "sys.modules['held'] = Holder()"
    ),
    "memory kept by a C++ capsule": "capsule = torch.utils.dlpack.to_dlpack(x.detach())",
    "pinned memory and streams": (
        "pinned = torch.ones(1000).pin_memory(); stream = torch.neuron.Stream()\n"
        "torch.neuron.set_stream(stream); y = pinned.to('neuron', non_blocking=True)"
    ),
    "a mode that is still entered": "torch.inference_mode().__enter__(); y = x + 1",
    "a graph kept alive": "y = x\nfor _ in range(10_000): y = y * 1.0",
    "the collector disabled": "gc.disable(); a = [x]; a.append(a)",
}


@pytest.mark.parametrize("state", STATES)
def test_exits_cleanly_with(state: str) -> None:
    done = run_python(f"{BEGIN}\n{STATES[state]}\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_os_exit_during_work_in_threads() -> None:
    code = f"{BEGIN}{WORKER}threading.Thread(target=work).start()\ntime.sleep(0.05)\nos._exit(7)\n"
    assert run_python(code).returncode == 7


def test_an_exception_in_a_thread_and_one_in_main() -> None:
    code = (
        f"{BEGIN}\nt = threading.Thread(target=lambda: x @ x[0:3])\nt.start(); t.join()\n"
        "raise SystemExit(5)"
    )
    done = run_python(code)
    assert done.returncode == 5
    assert "RuntimeError" in done.stderr


@pytest.mark.stress
def test_two_hundred_scripts_that_end_right_after_backward_exit_with_zero() -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = list(pool.map(lambda _: run_python(BEGIN), range(200)))
    assert [run.stderr for run in runs if run.returncode != 0] == []
