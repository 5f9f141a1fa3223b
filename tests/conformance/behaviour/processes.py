"""Forks, workers, sharing and exit, each in a process of its own."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def _python(device: str, code: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a new interpreter with the device registered."""
    text = textwrap.dedent(code).replace("DEVICE", device)
    preamble = "import torch, torch_trainium\n" if device == "neuron" else "import torch\n"
    command = [sys.executable, "-c", preamble + text]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )


def _prints(device: str, code: str, expected: str) -> None:
    finished = _python(device, code)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == expected, finished.stdout + finished.stderr


def test_a_child_forked_before_use_may_use_the_device(device: str) -> None:
    _prints(
        device,
        """
        import os
        pid = os.fork()
        if pid == 0:
            os._exit(int(torch.ones(3, device="DEVICE").sum().item()))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
        "3",
    )


def test_a_child_forked_after_use_is_refused_with_the_remedy(device: str) -> None:
    _prints(
        device,
        """
        import os
        torch.ones(3, device="DEVICE")
        pid = os.fork()
        if pid == 0:
            try:
                torch.ones(3, device="DEVICE")
            except RuntimeError as error:
                os._exit(7 if "spawn" in str(error) else 8)
            os._exit(9)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(torch.ones(3, device="DEVICE").sum().item())
        """,
        "7\n3.0",
    )


def test_loader_workers_that_stay_on_the_cpu_work(device: str) -> None:
    _prints(
        device,
        """
        from torch.utils.data import DataLoader, TensorDataset
        torch.ones(1, device="DEVICE")
        data = TensorDataset(torch.arange(8.0))
        loader = DataLoader(data, batch_size=4, num_workers=2, pin_memory=True,
                            multiprocessing_context="fork")
        print([batch.is_pinned() for (batch,) in loader])
        print(sum(batch.to("DEVICE", non_blocking=True).sum().item() for (batch,) in loader))
        """,
        "[True, True]\n28.0",
    )


def test_a_script_that_ends_after_backward_exits_cleanly(device: str) -> None:
    for _ in range(4):
        finished = _python(
            device,
            """
            x = torch.randn(4, 4, device="DEVICE", requires_grad=True)
            (x @ x).sum().backward()
            """,
        )
        assert finished.returncode == 0, finished.stderr


def test_sharing_with_another_process_works_or_says_why_not(device: str) -> None:
    finished = _python(
        device,
        """
        import torch.multiprocessing as mp
        def child(queue):
            print("got", queue.get().sum().item())
        if __name__ == "__main__":
            context = mp.get_context("fork")
            queue = context.SimpleQueue()
            try:
                queue.put(torch.ones(3, device="DEVICE"))
                print("sent")
            except Exception as error:
                print("refused" if "DEVICE" in str(error) else error)
        """,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() in ("sent", "refused"), finished.stdout


def test_an_unhandled_exception_exits_with_one(device: str) -> None:
    finished = _python(device, 'torch.ones(2, device="DEVICE") @ torch.ones(3, device="DEVICE")')
    assert finished.returncode == 1
    assert "RuntimeError" in finished.stderr


def test_an_interrupt_leaves_the_device_usable(device: str) -> None:
    _prints(
        device,
        """
        import os, signal
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        def stop(*args):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, stop)
        x = torch.ones(64, 64, device="DEVICE")
        try:
            while True:
                x = (x @ x).tanh()
        except KeyboardInterrupt:
            print(torch.ones(3, device="DEVICE").sum().item())
        """,
        "3.0",
    )
