"""DLPack, printing, Python values and NumPy."""

import pytest
import torch


def test_capsules_share_memory(device: str) -> None:
    values = torch.arange(6.0, device=device).view(2, 3)
    shared = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(values))
    assert shared.device == values.device
    assert shared.data_ptr() == values.data_ptr()
    shared[0, 0] = 9
    assert values[0, 0].item() == 9


def test_the_protocol_shares_memory(device: str) -> None:
    values = torch.arange(6.0, device=f"{device}:1").view(2, 3).t()
    shared = torch.from_dlpack(values)
    assert shared.device == values.device
    assert shared.stride() == values.stride()
    assert shared.data_ptr() == values.data_ptr()


def test_printing_shows_values_and_device(device: str) -> None:
    text = repr(torch.tensor([1.5, -2.0], device=device))
    assert "1.5" in text
    assert f"device='{device}:0'" in text
    assert "requires_grad=True" in repr(torch.ones(1, device=device, requires_grad=True))
    assert "..." in repr(torch.zeros(2000, device=device))
    assert repr(torch.tensor(3, device=device)) == f"tensor(3, device='{device}:0')"
    assert repr(torch.empty(0, 3, device=device)).startswith("tensor([], ")
    assert "j" in repr(torch.zeros(2, dtype=torch.complex64, device=device).conj())
    assert "inf" in repr(torch.tensor([float("inf")], dtype=torch.float16, device=device))


def test_python_values_come_out(device: str) -> None:
    assert torch.tensor(3.5, device=device).item() == 3.5
    assert torch.tensor([[1, 2], [3, 4]], device=device).tolist() == [[1, 2], [3, 4]]
    assert bool(torch.tensor([True], device=device))
    assert int(torch.tensor(7, device=device)) == 7
    assert [0, 1, 2][torch.tensor(1, device=device)] == 1
    assert torch.tensor(1 + 2j, device=device).item() == 1 + 2j
    assert len(torch.ones(3, 2, device=device)) == 3
    assert [row.sum().item() for row in torch.ones(3, 2, device=device)] == [2, 2, 2]
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(torch.ones(2, device=device))


def test_python_and_numpy_values_go_in(device: str) -> None:
    numpy = pytest.importorskip("numpy")
    assert torch.tensor([[1.0], [2.0]], device=device).cpu().tolist() == [[1.0], [2.0]]
    assert torch.as_tensor(numpy.arange(3), device=device).cpu().tolist() == [0, 1, 2]
    assert torch.tensor(numpy.float32(2.5), device=device).item() == 2.5
    assert torch.tensor((), device=device).shape == (0,)
    assert torch.asarray([1, 2], device=device).device.type == device
    existing = torch.ones(2, device=device)
    assert torch.as_tensor(existing, device=device) is existing
    assert torch.tensor(existing, device="cpu").device.type == "cpu"


def test_indexing_reads_and_writes(device: str) -> None:
    host = torch.arange(24.0).view(2, 3, 4)
    there = host.to(device)
    rows = torch.tensor([1, 0])
    mask = host[0, :, 0] > 2
    for index in (
        (0,),
        (slice(None), 1),
        (Ellipsis, slice(1, None, 2)),
        (None, 1),
        (rows,),
        (rows, slice(None), rows),
        (slice(None), mask),
        ([0, 1], [2, 0]),
    ):
        moved = tuple(i.to(device) if isinstance(i, torch.Tensor) else i for i in index)
        assert torch.equal(there[moved].cpu(), host[index])
        assert torch.equal(there[index].cpu(), host[index])
        written, expected = there.clone(), host.clone()
        written[moved] = 5
        expected[index] = 5
        assert torch.equal(written.cpu(), expected)


def test_an_index_out_of_range_is_an_error(device: str) -> None:
    values = torch.ones(3, device=device)
    with pytest.raises(IndexError):
        values[torch.tensor([5], device=device)]
    with pytest.raises(IndexError):
        values[3]
    assert values.sum().item() == 3


def test_data_dependent_shapes(device: str) -> None:
    host = torch.tensor([0.0, 3.0, 0.0, -1.0, 3.0])
    there = host.to(device)
    assert torch.equal(there.nonzero().cpu(), host.nonzero())
    assert torch.equal(there[there > 0].cpu(), host[host > 0])
    assert torch.equal(torch.unique(there).cpu(), torch.unique(host))
    assert torch.equal(there.masked_select(there < 1).cpu(), host.masked_select(host < 1))
    assert there.bool().any().item()
    assert torch.where(there > 0)[0].tolist() == [1, 4]


def test_comparison_between_devices(device: str) -> None:
    values = torch.randn(3)
    torch.testing.assert_close(values.to(device), values, check_device=False)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(values.to(device), values)
    assert torch.equal(values.to(device), values.to(device))
    assert torch.allclose(values.to(device), values.to(device))
