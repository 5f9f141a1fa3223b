"""Each replaced function of PyTorch: listed, needed, and left alone on unverified versions."""

import pytest
import torch

from tests.python_process import output_of
from torch_trainium import _patches
from torch_trainium.eager import eager_mode_is


def resolved(patch: _patches.Patch):
    return getattr(_patches._resolve(patch.owner), patch.name)


@pytest.mark.parametrize("patch", _patches.PATCHES, ids=lambda patch: patch.name)
def test_patch_is_installed_and_wraps_the_original(patch: _patches.Patch) -> None:
    assert resolved(patch).__wrapped__.__name__ == patch.name
    assert patch.reason


def test_upstream_dlpack_device_still_needs_replacing() -> None:
    with pytest.raises(ValueError, match="Unknown device type neuron"):
        torch.Tensor.__dlpack_device__.__wrapped__(torch.ones(1, device="neuron"))


def test_upstream_share_memory_still_returns_without_sharing() -> None:
    storage = torch.ones(1, device="neuron").untyped_storage()
    assert torch.UntypedStorage.share_memory_.__wrapped__(storage) is storage


def test_upstream_scatter_still_needs_cuda_bindings() -> None:
    from torch.nn.parallel import comm

    with pytest.raises(AttributeError, match="_scatter"):
        comm.scatter.__wrapped__(torch.ones(2, device="neuron"), [0])


def test_unverified_torch_keeps_its_functions() -> None:
    code = (
        "import torch\n"
        "from torch_trainium import _patches\n"
        "print(torch.Tensor.__dlpack_device__.__module__, end=' ')\n"
        "before = torch.Tensor.__dlpack_device__\n"
        "torch.__version__ = '2.99.0'\n"
        "_patches.apply()\n"
        "print(torch.Tensor.__dlpack_device__ is before)"
    )
    assert output_of(code, environ={"TORCH_TRAINIUM_ENABLE": "0"}).endswith("True")


@pytest.mark.parametrize("mode", ["host", "compiled"])
def test_printing_a_tensor_is_no_fallback(mode: str) -> None:
    a = torch.tensor([[0.5, -1e6], [float("nan"), 3.0]])
    with eager_mode_is(mode), torch.neuron.fallback_is("error"):
        printed = str(a.to("neuron"))
        assert printed.removesuffix(", device='neuron:0')") == str(a).removesuffix(")")
        assert "requires_grad=True" in repr(torch.nn.Parameter(a.to("neuron")))
