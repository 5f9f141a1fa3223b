"""What `import torch` does with this package installed, alone and beside others."""

import sys
from pathlib import Path

import pytest
import torch

from tests.python_process import install_entry_point, output_of, run_python
from torch_trainium import _autoload, _registration
from torch_trainium.errors import BackendConflictError

VENDOR = """
import torch
def _autoload():
    torch.utils.rename_privateuse1_backend("neuron")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install_entry_point(tmp_path / "site", "torch-trainium", "torch_trainium._autoload:load")


@pytest.fixture
def vendor_site(tmp_path: Path) -> Path:
    folder = install_entry_point(tmp_path / "vendor", "torch-neuronx", "torch_neuronx:_autoload")
    (folder / "torch_neuronx.py").write_text(VENDOR)
    return folder


STATUS = "import torch_trainium; print(torch_trainium.autoload_status())"


def test_import_torch_alone_makes_the_device_usable(site: Path) -> None:
    code = "import torch; print(torch.ones(2, device='neuron').sum().item(), torch.neuron.__name__)"
    assert output_of(code, path=[site]) == "2.0 torch_trainium.neuron"


def test_package_first_and_torch_first_end_alike(site: Path) -> None:
    for order in ("import torch, torch_trainium", "import torch_trainium, torch"):
        code = (
            f"{order}\nprint(torch_trainium.autoload_status().state, torch.neuron.device_count())"
        )
        assert output_of(code, path=[site]) == "active 4"


def test_child_process_loads_the_device_again(site: Path) -> None:
    code = (
        "import torch_trainium, subprocess, sys\n"
        "print(subprocess.check_output([sys.executable, '-c', "
        "'import torch; print(torch.neuron.device_count())'], text=True))"
    )
    assert output_of(code, path=[site]) == "4"


def test_autoload_switched_off_leaves_torch_alone_until_the_import(site: Path) -> None:
    code = (
        "import torch; print(hasattr(torch, 'neuron'))\n"
        "import torch_trainium; print(hasattr(torch, 'neuron'))"
    )
    environ = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert output_of(code, path=[site], environ=environ).split() == ["False", "True"]


def test_enable_0_keeps_the_device_away_from_imports_too(site: Path) -> None:
    code = f"import torch; print(hasattr(torch, 'neuron')); {STATUS}"
    printed = output_of(code, path=[site], environ={"TORCH_TRAINIUM_ENABLE": "0"})
    assert printed.splitlines() == ["False", "disabled: TORCH_TRAINIUM_ENABLE=0"]


@pytest.mark.parametrize("ours_first", [True, False])
def test_gives_way_to_an_installed_vendor_backend(
    site: Path, vendor_site: Path, ours_first: bool
) -> None:
    path = [site, vendor_site] if ours_first else [vendor_site, site]
    code = (
        "import torch; print(torch._C._get_privateuse1_backend_name(), hasattr(torch, 'neuron'))\n"
        "import torch_trainium"
    )
    done = run_python(code, path=path, environ={"TORCH_TRAINIUM_LOG": "info"})
    assert done.stdout.strip() == "neuron False"
    assert "stood back: " in done.stderr
    # The program's own import names what is in the way.
    assert "BackendConflictError" in done.stderr
    assert "another backend has registered the device 'neuron'" in done.stderr


def test_status_after_standing_back_can_be_asked_without_activating(
    site: Path, vendor_site: Path
) -> None:
    code = (
        "import torch\n"
        "from torch_trainium._autoload import autoload_status\n"
        "print(autoload_status()); print(hasattr(torch, 'neuron'))"
    )
    status, active = output_of(code, path=[site, vendor_site]).splitlines()
    assert status.startswith("stood back: the distribution 'torch-neuronx' installs")
    assert "TORCH_TRAINIUM_ENABLE=1" in status
    assert active == "False"


def test_enable_1_wins_over_an_installed_vendor_backend(site: Path, vendor_site: Path) -> None:
    (vendor_site / "torch_neuronx.py").write_text("def _autoload():\n    pass\n")
    printed = output_of(
        f"import torch; print(torch.neuron.is_available()); {STATUS}",
        path=[vendor_site, site],
        environ={"TORCH_TRAINIUM_ENABLE": "1"},
    )
    assert printed.splitlines() == ["True", "active: TORCH_TRAINIUM_ENABLE=1"]


def test_import_after_standing_back_activates_and_says_so(site: Path, vendor_site: Path) -> None:
    (vendor_site / "torch_neuronx.py").write_text("def _autoload():\n    pass\n")
    printed = output_of(
        f"import torch; print(hasattr(torch, 'neuron')); {STATUS}; torch.ones(1, device='neuron')",
        path=[site, vendor_site],
    )
    first, second = printed.splitlines()
    assert first == "False"
    assert second.startswith("active: imported by the program (autoload stood back: ")
    assert "'torch-neuronx'" in second


def test_broken_extension_warns_and_does_not_break_import_torch(site: Path, tmp_path: Path) -> None:
    package = tmp_path / "broken" / "torch_trainium"
    package.parent.mkdir()
    package.mkdir()
    source = Path(_autoload.__file__).parent
    for entry in source.iterdir():
        if not entry.name.startswith("_C"):
            (package / entry.name).symlink_to(entry)
    # Stands before the extension that an installed package would be found to have.
    (package / "_C.py").write_text("raise ImportError('undefined symbol: made for another torch')")
    done = run_python(
        "import torch; print(torch.ones(1).item(), hasattr(torch, 'neuron'))",
        path=[site, package.parent],
    )
    assert done.stdout.strip() == "1.0 False"
    assert "torch-trainium is installed but the neuron device is not available" in done.stderr
    strict = run_python("import torch", path=[site, package.parent], options=["-W", "error"])
    assert strict.returncode == 0
    explicit = run_python("import torch_trainium", path=[site, package.parent])
    assert "UnsupportedTorchError" in explicit.stderr


def test_loading_starts_no_runtime_and_forked_children_can_use_the_device(site: Path) -> None:
    code = (
        "import torch, os, sys\n"
        "assert not torch.neuron.is_initialized() and torch.neuron.is_available()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    ok = torch.ones(3, device='neuron').sum().item() == 3.0\n"
        "    os._exit(0 if ok else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert output_of(code, path=[site]) == "0"


def test_bad_setting_does_not_break_import_torch_and_raises_on_first_use(site: Path) -> None:
    code = (
        "import torch\n"
        "print(torch.neuron.is_available(), torch.neuron.device_count())\n"
        "try:\n"
        "    torch.ones(1, device='neuron')\n"
        "except RuntimeError as error:\n"
        "    print(error)"
    )
    printed = output_of(code, path=[site], environ={"NEURON_RT_VISIBLE_CORES": "7-9"})
    assert printed.startswith("False 0\n")
    assert "NEURON_RT_VISIBLE_CORES" in printed


def test_unknown_setting_warns_with_the_near_match(site: Path) -> None:
    done = run_python(
        "import torch; print(torch.neuron.is_available())",
        path=[site],
        environ={"TORCH_TRAINIUM_LOGOPS": "1"},
    )
    assert done.stdout.strip() == "True"
    assert "did you mean TORCH_TRAINIUM_LOG_OPS?" in done.stderr


class TestReasonToStandBack:
    @pytest.fixture(autouse=True)
    def nobody_registered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_registration, "registered_backend", lambda: "")
        monkeypatch.setattr(_autoload, "_installed_backend", lambda: "")
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: None)

    def test_none_where_nobody_else_is(self) -> None:
        assert _autoload.reason_to_stand_back() == ""

    def test_cuda_build_without_a_gpu_is_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: -1)
        assert _autoload.reason_to_stand_back() == ""

    def test_cuda_build_with_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: 1)
        assert "'cuda'" in _autoload.reason_to_stand_back()

    def test_xpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        assert "'xpu'" in _autoload.reason_to_stand_back()

    def test_a_registered_backend(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_registration, "registered_backend", lambda: "npu")
        assert "'npu'" in _autoload.reason_to_stand_back()


def test_registering_twice_names_the_registered_backend() -> None:
    with pytest.raises(BackendConflictError, match="'neuron'"):
        _registration.register()


def test_package_in_use_is_the_one_registered() -> None:
    assert sys.modules["torch.neuron"] is sys.modules["torch_trainium.neuron"]
    assert sys.modules["torch.neuron.amp"] is sys.modules["torch_trainium.neuron.amp"]
