"""Neuron tensors and other processes."""

import io
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.python_process import output_of
from torch_trainium.errors import ProcessSharingError


@pytest.mark.parametrize(
    "value",
    [
        lambda: torch.ones(2, device="neuron"),
        lambda: nn.Parameter(torch.ones(2, device="neuron")),
        lambda: {"nested": [torch.ones(2, device="neuron")[1:]]},
        lambda: torch.eye(2, device="neuron").to_sparse(),
        lambda: nn.Linear(2, 2).to("neuron"),
    ],
)
def test_sending_to_another_process_says_what_to_do_instead(value) -> None:
    with pytest.raises(ProcessSharingError, match=r"tensor\.cpu\(\)"):
        ForkingPickler(io.BytesIO()).dump(value())


def test_queue_raises_where_the_tensor_would_arrive() -> None:
    queue = torch.multiprocessing.get_context("spawn").Queue()
    queue.put(torch.ones(2, device="neuron"))
    with pytest.raises(ProcessSharingError, match=r"tensor\.cpu\(\)"):
        queue.get(timeout=30)


def test_cpu_tensors_are_still_sent() -> None:
    ForkingPickler(io.BytesIO()).dump(torch.ones(2))


@pytest.mark.parametrize(
    "share",
    [
        lambda: torch.ones(2, device="neuron").share_memory_(),
        lambda: torch.ones(2, device="neuron").untyped_storage().share_memory_(),
        lambda: nn.Linear(2, 2).to("neuron").share_memory(),
    ],
)
def test_share_memory_refuses(share) -> None:
    with pytest.raises(ProcessSharingError, match="shared memory"):
        share()


def test_share_memory_of_cpu_tensors_still_works() -> None:
    assert torch.ones(2).share_memory_().is_shared()


def test_forked_child_of_a_user_of_the_device_raises_with_the_remedy() -> None:
    code = """
import os, torch, torch_trainium
kept = torch.arange(1000., device="neuron")
pid = os.fork()
if pid == 0:
    errors = []
    for use in (lambda: torch.ones(1, device="neuron"), lambda: kept.sum(), torch.neuron.init):
        try:
            use()
        except RuntimeError as error:
            errors.append("spawn" in str(error) and "fork" in str(error))
    ok = errors == [True] * 3 and torch.neuron._is_in_bad_fork()
    ok = ok and not torch.neuron.is_initialized()
    del kept
    os._exit(0 if ok else 1)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(status, kept.sum().item(), torch.neuron._is_in_bad_fork())
"""
    assert output_of(code) == "0 499500.0 False"


def test_spawned_process_has_a_device_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "spawned.py").write_text(
        """
import torch, torch_trainium

def child():
    assert torch.ones(3, device="neuron").sum().item() == 3

def main():
    torch.ones(1, device="neuron")
    process = torch.multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
    print(process.exitcode)
"""
    )
    assert output_of("import spawned; spawned.main()", path=[tmp_path]) == "0"
