"""Guard mode: operators work, and host code that reads device memory dies with a report."""

import signal

import pytest

from tests.python_process import output_of, run_python

GUARD = {"TORCH_TRAINIUM_GUARD": "1"}

ORDINARY = """
import io
import torch, torch_trainium
import torch.nn.functional as F

def losses(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(36, 16), torch.nn.GELU(), torch.nn.LayerNorm(16),
        torch.nn.Linear(16, 4),
    ).to(device)
    data, labels = torch.randn(8, 1, 8, 8).to(device), torch.arange(8).remainder(4).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    found = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append(loss.item())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file))
    return found

a, b = losses("cpu"), losses("neuron")
print(a == b or (a, b))
"""

ACCESSES = {
    "a read by ctypes": "ctypes.string_at(x.data_ptr(), 4)",
    "a write by ctypes": "ctypes.memset(x.data_ptr(), 0, 4)",
    "a read by another thread": (
        "t = threading.Thread(target=ctypes.string_at, args=(x.data_ptr(), 4)); t.start(); t.join()"
    ),
}

# What guard mode must not disturb: sub-suites of this repository that use devices much.
SUITES = (
    "tests/aten",
    "tests/core/test_allocator.py",
    "tests/core/test_host_allocator.py",
    "tests/neuron/test_serialization.py",
    "tests/neuron/test_data_loading.py",
    "tests/stress/test_signals_and_errors.py",
    "tests/stress/test_threads.py",
)


def test_training_computes_what_the_cpu_does() -> None:
    assert output_of(ORDINARY, environ=GUARD) == "True"


@pytest.mark.parametrize("access", ACCESSES)
def test_host_access_dies_with_device_and_stack_named(access: str) -> None:
    code = f"""
import ctypes, threading, torch, torch_trainium
x = torch.ones(4, device="neuron:1")
print(x.sum().item(), flush=True)
{ACCESSES[access]}
print("survived")
"""
    done = run_python(code, environ=GUARD)
    assert done.stdout.split() == ["4.0"]
    assert done.returncode == -signal.SIGSEGV
    assert "host code accessed memory of neuron:1" in done.stderr
    assert "_ctypes" in done.stderr or "libc" in done.stderr


def test_other_faults_are_not_blamed_on_the_device() -> None:
    code = "import ctypes, torch, torch_trainium; torch.ones(1, device='neuron')"
    done = run_python(f"{code}; ctypes.string_at(8, 4)", environ=GUARD)
    assert done.returncode == -signal.SIGSEGV
    assert "torch-trainium" not in done.stderr


def test_a_python_fault_handler_installed_before_still_reports() -> None:
    code = (
        "import ctypes, torch, torch_trainium\n"
        "x = torch.ones(1, device='neuron')\n"
        "ctypes.string_at(x.data_ptr(), 4)"
    )
    done = run_python(code, environ=GUARD, options=["-X", "faulthandler"])
    assert done.returncode == -signal.SIGSEGV
    assert "host code accessed memory of neuron:0" in done.stderr
    assert 'File "<string>", line 3' in done.stderr


def test_suites_pass() -> None:
    code = f"""
import sys, pytest
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", *{SUITES!r}]))
"""
    done = run_python(code, environ=GUARD, timeout_seconds=600)
    assert done.returncode == 0, done.stdout
