"""What this package costs and demands at import."""

import statistics

import pytest

from tests.python_process import output_of
from torch_trainium import _registration
from torch_trainium.errors import UnsupportedTorchError

BUDGET_MILLISECONDS = 150


def test_adds_less_than_the_budget_to_import_torch() -> None:
    code = (
        "import torch, time\n"
        "start = time.process_time()\n"
        "import torch_trainium\n"
        "print((time.process_time() - start) * 1e3)"
    )
    # Time of the processor: tests that run beside this one do not count.
    environ = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    added = [float(output_of(code, environ=environ)) for _ in range(5)]
    assert statistics.median(added) < BUDGET_MILLISECONDS


def test_imports_nothing_of_the_compiler() -> None:
    code = (
        "import torch_trainium, sys\n"
        "print([m for m in ('torch._dynamo', 'torch._inductor', 'torch.profiler', 'numpy.testing',"
        " 'torch.distributed.tensor') if m in sys.modules])"
    )
    assert output_of(code) == output_of(code.replace("torch_trainium", "torch"))


@pytest.mark.parametrize("version", ["2.13.0", "2.13.1+cpu", "2.14.0a0+git1", "2.14.1"])
def test_accepts_supported_torch(version: str) -> None:
    _registration.check_torch_version(version)


@pytest.mark.parametrize("version", ["2.12.1", "2.15.0.dev20261001", "3.0.0", "1.13.1+cu117"])
def test_refuses_other_torch_and_names_both(version: str) -> None:
    with pytest.raises(UnsupportedTorchError, match=r">=2\.13,<2\.15") as error:
        _registration.check_torch_version(version)
    assert version in str(error.value)


def test_refuses_extension_of_another_minor() -> None:
    _registration.check_built_for("2.13", "2.13.1+cpu")
    with pytest.raises(UnsupportedTorchError, match=r"built for torch 2\.13 and found 2\.14\.1"):
        _registration.check_built_for("2.13", "2.14.1")
