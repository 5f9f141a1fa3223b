"""The allocator behind `torch.accelerator.memory_*` and pinned host memory."""

import gc

import pytest
import torch


def _settle(device: str):
    gc.collect()
    module = torch.get_device_module(device)
    module.empty_cache()
    module.reset_peak_memory_stats()
    return module


def test_allocated_bytes_follow_tensors(device: str) -> None:
    module = _settle(device)
    before = module.memory_allocated()
    tensor = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    assert module.memory_allocated() - before >= 1 << 20
    assert torch.accelerator.memory_allocated() == module.memory_allocated()
    del tensor
    assert module.memory_allocated() == before
    assert module.max_memory_allocated() - before >= 1 << 20


def test_views_share_their_allocation(device: str) -> None:
    module = _settle(device)
    tensor = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    used = module.memory_allocated()
    views = [tensor[8:], tensor.view(1 << 10, 1 << 10).t(), tensor.detach()]
    assert module.memory_allocated() == used
    del tensor
    assert module.memory_allocated() == used
    del views
    assert module.memory_allocated() < used


def test_memory_is_cached_and_released(device: str) -> None:
    module = _settle(device)
    tensor = torch.empty(64 << 20, dtype=torch.uint8, device=device)
    pointer = tensor.data_ptr()
    reserved = module.memory_reserved()
    assert reserved >= 64 << 20
    del tensor
    assert module.memory_reserved() == reserved
    assert torch.empty(64 << 20, dtype=torch.uint8, device=device).data_ptr() == pointer
    module.empty_cache()
    assert module.memory_reserved() < reserved


def test_free_memory_falls_by_what_is_reserved(device: str) -> None:
    module = _settle(device)
    free, total = module.mem_get_info()
    tensor = torch.empty(256 << 20, dtype=torch.uint8, device=device)
    assert free - module.mem_get_info()[0] >= tensor.numel()
    assert module.mem_get_info()[1] == total


def test_peaks_reset_to_the_present(device: str) -> None:
    module = _settle(device)
    tensor = torch.empty(32 << 20, dtype=torch.uint8, device=device)
    del tensor
    assert module.max_memory_allocated() > module.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    assert module.max_memory_allocated() == module.memory_allocated()
    assert torch.accelerator.max_memory_allocated() == module.memory_allocated()


def test_statistics_use_cuda_names(device: str) -> None:
    module = _settle(device)
    stats = module.memory_stats()
    for name in ("allocated_bytes.all.current", "reserved_bytes.all.peak", "num_ooms"):
        assert name in stats
    assert stats["allocated_bytes.all.current"] == module.memory_allocated()
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] == (
        module.memory_allocated()
    )
    assert "Allocated memory" in module.memory_summary()


def test_devices_have_memory_of_their_own(device: str) -> None:
    module = _settle(device)
    before = module.memory_allocated(0)
    tensor = torch.empty(1 << 20, dtype=torch.uint8, device=f"{device}:1")
    assert module.memory_allocated(0) == before
    assert module.memory_allocated(1) >= tensor.numel()


def test_out_of_memory_is_typed_and_survived(device: str) -> None:
    module = _settle(device)
    total = module.mem_get_info()[1]
    before = module.memory_allocated()
    for _ in range(3):
        with pytest.raises(torch.OutOfMemoryError, match=r"[Tt]ried to allocate"):
            torch.empty(2 * total, dtype=torch.uint8, device=device)
    assert module.memory_allocated() == before
    assert module.memory_stats()["num_ooms"] >= 3
    assert torch.ones(3, device=device).sum().item() == 3


def test_absurd_sizes_are_errors(device: str) -> None:
    with pytest.raises(RuntimeError):
        torch.empty(2**62, device=device)
    with pytest.raises(RuntimeError):
        torch.empty(-1, device=device)


def test_empty_tensors_need_no_memory(device: str) -> None:
    module = _settle(device)
    before = module.memory_allocated()
    tensor = torch.empty(0, 5, device=device)
    assert module.memory_allocated() == before
    assert (tensor + 1).shape == (0, 5)
    assert tensor.sum().item() == 0


def test_resizing_grows_and_keeps_the_data(device: str) -> None:
    tensor = torch.arange(4.0, device=device)
    tensor.resize_(2, 4)
    assert torch.equal(tensor.cpu()[0], torch.arange(4.0))
    tensor.resize_(2)
    assert tensor.untyped_storage().nbytes() == 32
    storage = torch.ones(4, device=device).untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_pinned_memory_is_recognized(device: str) -> None:
    pinned = torch.randn(10).pin_memory()
    assert pinned.is_pinned()
    assert pinned[2:].is_pinned()
    assert not torch.randn(10).is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert pinned.pin_memory() is pinned
    moved = pinned.to(device, non_blocking=True)
    torch.accelerator.synchronize()
    assert torch.equal(moved.cpu(), pinned)


def test_device_tensors_cannot_be_pinned(device: str) -> None:
    with pytest.raises(RuntimeError, match="pin"):
        torch.ones(2, device=device).pin_memory()


def test_storage_of_pinned_memory_can_be_wrapped_again(device: str) -> None:
    pinned = torch.randn(10).pin_memory()
    wrapped = torch.tensor(()).set_(pinned.untyped_storage(), 2, (5,), (1,))
    assert wrapped.is_pinned()
    assert torch.equal(wrapped, pinned[2:7])
