"""Storages of the device: construction, aliasing, copies and locations."""

import pytest
import torch


def test_storages_are_on_the_device(device: str) -> None:
    storage = torch.ones(4, device=device).untyped_storage()
    assert storage.device == torch.device(device, 0)
    assert storage.nbytes() == 16
    assert torch.UntypedStorage(8, device=device).device.type == device
    assert torch.ones(4, device=f"{device}:1").storage().device.index == 1


def test_location_tags_name_the_index(device: str) -> None:
    for index in (0, 1):
        storage = torch.UntypedStorage(4, device=torch.device(device, index))
        assert torch.serialization.location_tag(storage) == f"{device}:{index}"
    restored = torch.serialization.default_restore_location(
        torch.ones(4).untyped_storage(), f"{device}:1"
    )
    assert restored.device == torch.device(device, 1)


def test_storage_copies(device: str) -> None:
    values = torch.arange(4.0)
    storage = values.to(device).untyped_storage()
    assert storage.cpu().tolist() == values.untyped_storage().tolist()
    clone = storage.clone()
    assert clone.device == storage.device
    assert clone.data_ptr() != storage.data_ptr()
    target = torch.zeros(4, device=device)
    target.untyped_storage().copy_(values.untyped_storage())
    assert torch.equal(target.cpu(), values)


def test_set_shares_storage(device: str) -> None:
    base = torch.arange(6.0, device=device)
    other = torch.empty(0, device=device).set_(base.untyped_storage(), 1, (2, 2), (2, 1))
    assert torch.equal(other.cpu(), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    other.zero_()
    assert torch.equal(base.cpu(), torch.tensor([0.0, 0, 0, 0, 0, 5]))
    assert torch.empty(0, device=device).set_(base).is_set_to(base)


def test_set_of_another_device_is_refused(device: str) -> None:
    with pytest.raises(RuntimeError):
        torch.empty(0, device=device).set_(torch.ones(3))


def test_data_assignment_swaps_storage(device: str) -> None:
    tensor = torch.zeros(2, device=device)
    tensor.data = torch.ones(3, device=device)
    assert torch.equal(tensor.cpu(), torch.ones(3))


def test_views_of_views_write_through(device: str) -> None:
    base = torch.zeros(4, 6, device=device)
    base.view(2, 2, 6).transpose(0, 1)[1].unfold(1, 2, 2).fill_(3)
    expected = torch.zeros(4, 6)
    expected.view(2, 2, 6).transpose(0, 1)[1].unfold(1, 2, 2).fill_(3)
    assert torch.equal(base.cpu(), expected)


def test_complex_views_write_through(device: str) -> None:
    base = torch.zeros(3, dtype=torch.complex64, device=device)
    torch.view_as_real(base)[:, 1] = 2
    base.real.fill_(1)
    base.conj().imag.add_(1)
    expected = torch.zeros(3, dtype=torch.complex64)
    torch.view_as_real(expected)[:, 1] = 2
    expected.real.fill_(1)
    expected.conj().imag.add_(1)
    assert torch.equal(base.cpu(), expected)
    pairs = torch.ones(3, 2, device=device)
    torch.view_as_complex(pairs).zero_()
    assert pairs.sum().item() == 0


def test_conjugate_and_negative_views_copy_to_the_cpu(device: str) -> None:
    values = torch.randn(4, dtype=torch.complex64)
    moved = values.to(device)
    assert torch.equal(moved.conj().cpu(), values.conj())
    assert torch.equal(moved.conj().imag.cpu(), values.conj().imag)
    assert torch.equal(moved._neg_view().cpu(), -values)
    assert torch.equal(values.conj().to(device).cpu(), values.conj())
    target = torch.zeros(4, dtype=torch.complex64, device=device)
    target.conj().copy_(values)
    assert torch.equal(target.cpu(), values.conj())


def test_dtype_views(device: str) -> None:
    values = torch.tensor([1.0, -2.0])
    moved = values.to(device)
    assert torch.equal(moved.view(torch.int32).cpu(), values.view(torch.int32))
    assert torch.equal(moved.view(torch.uint8).cpu(), values.view(torch.uint8))
    moved.view(torch.int32).zero_()
    assert moved.abs().sum().item() == 0


def test_every_dtype_goes_and_comes_back(device: str) -> None:
    names = [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
        "complex64",
        "complex128",
        "complex32",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    ]
    content = torch.tensor(
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], dtype=torch.uint8
    )
    for name in names:
        dtype = getattr(torch, name)
        values = (content % 2).view(torch.bool) if dtype is torch.bool else content.view(dtype)
        moved = values.to(device)
        assert moved.dtype == dtype
        assert torch.equal(moved.cpu().view(torch.uint8), values.view(torch.uint8)), name


def test_strided_copies_keep_order(device: str) -> None:
    values = torch.arange(24.0).view(2, 3, 4)
    for view in (
        values.permute(2, 0, 1),
        values[:, ::2],
        values[:, 1:, 1:3],
        values.expand(2, 3, 4),
    ):
        assert torch.equal(view.to(device).cpu(), view)
        target = torch.empty(view.shape, device=device).transpose(0, -1).contiguous()
        target = target.transpose(0, -1)
        target.copy_(view)
        assert torch.equal(target.cpu(), view)
        assert torch.equal(view.to(device, torch.float64).cpu(), view.double())


def test_overlapping_copies_are_refused(device: str) -> None:
    base = torch.zeros(1, device=device).expand(4)
    with pytest.raises(RuntimeError, match="single memory location"):
        base.copy_(torch.ones(4, device=device))
    with pytest.raises(RuntimeError, match="single memory location"):
        base.add_(1)


def test_channels_last_is_kept(device: str) -> None:
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    moved = image.to(device)
    assert moved.is_contiguous(memory_format=torch.channels_last)
    assert (moved + 1).is_contiguous(memory_format=torch.channels_last)
    assert moved.cpu().stride() == image.stride()
    empty = torch.empty(2, 3, 4, 5, device=device, memory_format=torch.channels_last)
    assert empty.stride() == image.stride()
