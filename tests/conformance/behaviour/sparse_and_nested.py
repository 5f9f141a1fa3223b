"""Layouts beyond strided."""

import pytest
import torch


def test_coo(device: str) -> None:
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    there = dense.to(device).to_sparse()
    assert there.device.type == device
    assert torch.equal(there.to_dense().cpu(), dense)
    assert torch.equal(torch.sparse.mm(there, dense.to(device)).cpu(), dense @ dense)
    built = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2), device=device)
    assert built.coalesce().values().tolist() == [3.0]
    assert torch.equal((there + there).to_dense().cpu(), 2 * dense)
    assert there.cpu().is_sparse
    assert torch.equal(there.cpu().to(device).to_dense().cpu(), dense)


def test_compressed(device: str) -> None:
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    for layout in (torch.sparse_csr, torch.sparse_csc):
        there = dense.to(device).to_sparse(layout=layout)
        assert there.layout is layout
        assert torch.equal(there.to_dense().cpu(), dense)
        assert torch.equal(there.cpu().to_dense(), dense)
    csr = dense.to(device).to_sparse_csr()
    assert torch.equal((csr @ dense.to(device)).cpu(), dense @ dense)


def test_gradients_through_sparse(device: str) -> None:
    embedding = torch.nn.Embedding(10, 3, sparse=True).to(device)
    embedding(torch.tensor([1, 1, 4], device=device)).sum().backward()
    gradient = embedding.weight.grad.coalesce()
    assert gradient.is_sparse
    assert gradient.indices().tolist() == [[1, 4]]
    torch.optim.SparseAdam(embedding.parameters()).step()


def test_nested_jagged(device: str) -> None:
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    there = torch.nested.nested_tensor(parts, device=device, layout=torch.jagged)
    assert there.device.type == device
    for mine, part in zip((there * 2).unbind(), parts, strict=True):
        assert torch.equal(mine.cpu(), part * 2)
    padded = there.to_padded_tensor(0.0)
    assert padded.shape == (2, 4, 3)


def test_nested_strided(device: str) -> None:
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    there = torch.nested.nested_tensor(parts, device=device)
    assert there.is_nested
    weight = torch.randn(5, 3)
    result = torch.nn.functional.linear(there, weight.to(device))
    for mine, part in zip(result.unbind(), parts, strict=True):
        assert torch.allclose(mine.cpu(), part @ weight.t(), atol=1e-6)


def test_masked(device: str) -> None:
    data = torch.tensor([1.0, 2.0, 3.0], device=device)
    mask = torch.tensor([True, False, True], device=device)
    masked = torch.masked.masked_tensor(data, mask)
    assert masked.sum().get_data().item() == 4


def test_legacy_quantized_dtypes_are_refused_clearly(device: str) -> None:
    with pytest.raises(RuntimeError, match="quantize"):
        torch.quantize_per_tensor(torch.randn(3, device=device), 0.1, 0, torch.qint8)


def test_fake_quantization(device: str) -> None:
    values = torch.randn(10)
    expected = torch.fake_quantize_per_tensor_affine(values, 0.1, 0, -128, 127)
    actual = torch.fake_quantize_per_tensor_affine(values.to(device), 0.1, 0, -128, 127)
    assert torch.equal(actual.cpu(), expected)
