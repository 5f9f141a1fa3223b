"""Sparse COO and compressed tensors on the device."""

import copy
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput

from tests.conformance.compare import Comparison
from tests.conformance.mirror import Mirror

DEVICE = "neuron:0"
COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
LAYOUTS = (torch.sparse_coo, *COMPRESSED)

warnings.filterwarnings("ignore", "Sparse .* tensor support is in beta state")


def dense_matrix() -> torch.Tensor:
    return torch.tensor([[0.0, 2.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0]])


def sparse(layout: torch.layout, dense: torch.Tensor | None = None) -> torch.Tensor:
    blocks = (1, 2) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    dense = dense_matrix() if dense is None else dense
    return dense.to_sparse(layout=layout, blocksize=blocks)


def uncoalesced(device: str = "cpu") -> torch.Tensor:
    indices = torch.tensor([[1, 0, 1], [2, 0, 2]], device=device)
    return torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0, 3.0], device=device), (2, 3))


def assert_same(actual: Any, expected: Any) -> None:
    problems = Comparison(DEVICE).compare(actual, expected).problems
    assert not problems, problems


@pytest.mark.parametrize("layout", LAYOUTS)
def test_moves_between_cpu_and_device(layout: torch.layout) -> None:
    expected = sparse(layout)
    there = expected.to(DEVICE)
    assert_same(there, expected)
    assert there.values().device == torch.device(DEVICE)
    assert Comparison("cpu").compare(there.cpu(), expected).problems == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_converts_from_and_to_dense(layout: torch.layout) -> None:
    there = sparse(layout, dense_matrix().to(DEVICE))
    assert_same(there, sparse(layout))
    assert_same(there.to_dense(), dense_matrix())


@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("target", LAYOUTS)
def test_converts_between_layouts(source: torch.layout, target: torch.layout) -> None:
    blocks = (1, 2) if target in (torch.sparse_bsr, torch.sparse_bsc) else None
    try:
        expected = sparse(source).to_sparse(layout=target, blocksize=blocks)
    except RuntimeError as refusal:
        with pytest.raises(type(refusal)):
            sparse(source).to(DEVICE).to_sparse(layout=target, blocksize=blocks)
        return
    assert_same(sparse(source).to(DEVICE).to_sparse(layout=target, blocksize=blocks), expected)


MAKERS: dict[str, Callable[[str], torch.Tensor]] = {
    "coo from lists": lambda d: torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], device=d),
    "coo empty": lambda d: torch.sparse_coo_tensor((2, 3), device=d),
    "coo hybrid": lambda d: torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 3), device=d),
    "coo checked": lambda d: torch.sparse_coo_tensor(
        [[0, 1]], [1.0, 2.0], (4,), device=d, check_invariants=True
    ),
    "csr": lambda d: torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), device=d),
    "csc": lambda d: torch.sparse_csc_tensor([0, 1, 2], [1, 0], [1.0, 2.0], device=d),
    "bsr": lambda d: torch.sparse_bsr_tensor([0, 1], [1], torch.ones(1, 2, 2), device=d),
    "bsc": lambda d: torch.sparse_bsc_tensor([0, 1], [0], torch.ones(1, 2, 2), device=d),
    "zeros coo": lambda d: torch.zeros(2, 3, layout=torch.sparse_coo, device=d),
    "zeros csr": lambda d: torch.zeros(2, 3, layout=torch.sparse_csr, device=d),
    "zeros_like": lambda d: torch.zeros_like(sparse(torch.sparse_coo).to(d)),
    "clone": lambda d: sparse(torch.sparse_coo).to(d).clone(),
    "clone csr": lambda d: sparse(torch.sparse_csr).to(d).clone(),
    "new": lambda d: sparse(torch.sparse_coo).to(d).new_zeros(3, 3),
    "double": lambda d: sparse(torch.sparse_coo).to(d).double(),
    "csr half": lambda d: sparse(torch.sparse_csr).to(d).half(),
}


@pytest.mark.parametrize("name", MAKERS)
def test_makes_what_the_cpu_makes(name: str) -> None:
    assert_same(MAKERS[name](DEVICE), MAKERS[name]("cpu"))


def test_metadata() -> None:
    there = uncoalesced(DEVICE)
    assert (there._nnz(), there.sparse_dim(), there.dense_dim()) == (3, 2, 0)
    assert not there.is_coalesced()
    assert there.coalesce().is_coalesced()
    assert_same(there.coalesce(), uncoalesced().coalesce())
    assert there.device == torch.device(DEVICE)
    assert there.is_sparse
    assert not there.is_pinned()


def test_parts_share_memory() -> None:
    there = sparse(torch.sparse_coo).to(DEVICE)
    there._values().fill_(5.0)
    assert there.to_dense().unique().tolist() == [0.0, 5.0]
    compressed = sparse(torch.sparse_csr).to(DEVICE)
    compressed.values().mul_(2)
    assert_same(compressed.to_dense(), dense_matrix() * 2)


WRITES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mul_ scalar": lambda t: t.mul_(2),
    "neg_": lambda t: t.neg_(),
    "add_ with other indices": lambda t: t.add_(torch.ones_like(t.to_dense()).to_sparse()),
    "mul_ with itself": lambda t: t.mul_(t),
    "zero_": lambda t: t.zero_(),
    "copy_": lambda t: t.copy_(torch.ones_like(t.to_dense()).to_sparse()),
    "resize": lambda t: t.sparse_resize_((5, 6), 2, 0),
    "resize and clear": lambda t: t.sparse_resize_and_clear_((5, 6), 1, 1),
    "_coalesced_": lambda t: t._coalesced_(True),
    "abs out": lambda t: torch.abs(t * 2, out=t),
    "add out": lambda t: torch.add(t, torch.ones_like(t.to_dense()).to_sparse(), out=t),
    "sspaddmm out": lambda t: torch.sspaddmm(
        t.new_zeros(2, 2), t, t.to_dense().t().contiguous(), out=t
    ),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("coalesced", [False, True])
def test_writes_reach_the_tensor(name: str, coalesced: bool) -> None:
    def run(device: str) -> torch.Tensor:
        target = uncoalesced(device)
        if coalesced:
            target = target.coalesce()
        returned = WRITES[name](target)
        assert returned is target
        return target

    assert_same(run(DEVICE), run("cpu"))


def test_compressed_writes_reach_the_tensor() -> None:
    def run(device: str) -> torch.Tensor:
        target = sparse(torch.sparse_csr).to(device)
        target.mul_(3).neg_()
        other = torch.ones(2, 4, device=device).to_sparse_csr()
        torch.add(target, other, out=target)
        return target

    assert_same(run(DEVICE), run("cpu"))


def test_copies_across_devices_in_place() -> None:
    source = uncoalesced()
    there = torch.sparse_coo_tensor((2, 3), device=DEVICE)
    there.copy_(source)
    assert_same(there, source)
    back = torch.sparse_coo_tensor((2, 3))
    back.copy_(there)
    assert back.device.type == "cpu"
    assert torch.equal(back.to_dense(), source.to_dense())


def test_dense_and_sparse_operands_mix() -> None:
    def run(device: str) -> list[torch.Tensor]:
        matrix = sparse(torch.sparse_coo).to(device)
        dense = torch.arange(8.0, device=device).view(2, 4)
        return [
            dense + matrix,
            matrix * dense,
            matrix @ dense.t(),
            torch.sparse.mm(matrix, dense.t()),
            torch.addmm(torch.ones(2, 2, device=device), matrix, dense.t()),
            torch.sparse.addmm(torch.ones(2, 2, device=device), matrix, dense.t()),
            torch.sparse.mm(matrix, matrix.t()),
            dense.sparse_mask(matrix.coalesce()),
            torch.sparse.sum(matrix, dim=0),
            torch.sparse.sum(matrix),
            torch.sparse.softmax(matrix, dim=1),
            torch.sparse.log_softmax(matrix, dim=1),
            matrix.sum(),
            matrix.t(),
            matrix[1],
            torch.cat([matrix, matrix]),
            matrix.index_select(1, torch.tensor([3, 1], device=device)),
            torch.mv(matrix, torch.arange(4.0, device=device)),
            torch.hspmm(matrix, dense.t().contiguous()),
            dense.clone().add_(matrix),
        ]

    for actual, expected in zip(run(DEVICE), run("cpu"), strict=True):
        assert_same(actual, expected)


def test_compressed_products() -> None:
    def run(device: str) -> list[torch.Tensor]:
        matrix = sparse(torch.sparse_csr).to(device)
        dense = torch.arange(8.0, device=device).view(2, 4)
        return [
            matrix @ dense.t(),
            matrix @ torch.arange(4.0, device=device),
            torch.sparse.sampled_addmm(
                torch.ones(2, 2, device=device).to_sparse_csr(), dense, dense.t()
            ),
            torch.sparse.mm(matrix, dense.t().contiguous(), "mean"),
            matrix.sum(dim=1, keepdim=True),
            matrix[0],
            matrix.transpose(0, 1),
        ]

    for actual, expected in zip(run(DEVICE), run("cpu"), strict=True):
        assert_same(actual, expected)


GRADIENTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sparse mm": lambda s, d: torch.sparse.mm(s, d.t()).sum(),
    "mm": lambda s, d: (s @ d.t()).pow(2).sum(),
    "mul": lambda s, d: (s * d.to_sparse()).to_dense().sum(),
    "to_dense": lambda s, d: (s.to_dense() * d).sum(),
    "coalesce": lambda s, d: (s.coalesce().values() * 3).sum() + d.sum(),
    "sparse sum": lambda s, d: torch.sparse.sum(s, dim=0).to_dense().sum() + d.sum(),
    "softmax": lambda s, d: (torch.sparse.softmax(s, 1).to_dense() * d).sum(),
    "to_sparse": lambda s, d: (d * 2).to_sparse().coalesce().values().sum() + (s * 1).sum(),
    "sparse_mask": lambda s, d: d.sparse_mask(s.detach().coalesce()).to_dense().sum() + s.sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    def run(device: str) -> list[torch.Tensor | None]:
        matrix = sparse(torch.sparse_coo).to(device).requires_grad_()
        dense = torch.linspace(1, 2, 8).view(2, 4).to(device).requires_grad_()
        GRADIENTS[name](matrix, dense).backward()
        return [matrix.grad, dense.grad]

    assert_same(run(DEVICE), run("cpu"))


def test_gradient_of_compressed_product() -> None:
    def run(device: str) -> list[torch.Tensor | None]:
        matrix = sparse(torch.sparse_csr).to(device).requires_grad_()
        dense = torch.linspace(1, 2, 8).view(4, 2).to(device).requires_grad_()
        (matrix @ dense).sum().backward()
        return [matrix.grad, dense.grad]

    assert_same(run(DEVICE), run("cpu"))


def test_gradient_through_constructor_and_device_change() -> None:
    def run(device: str) -> torch.Tensor | None:
        values = torch.tensor([1.0, 2.0], requires_grad=True)
        matrix = torch.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2)).to(device)
        dense = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
        torch.sparse.mm(matrix, dense).sum().backward()
        return values.grad

    assert torch.equal(run(DEVICE), run("cpu"))


def test_sparse_embedding_trains() -> None:
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        embedding = torch.nn.Embedding(10, 3, sparse=True).to(device)
        bag = torch.nn.EmbeddingBag(10, 3, sparse=True).to(device)
        optimizers = [
            torch.optim.SparseAdam(embedding.parameters(), lr=0.1),
            torch.optim.SGD(bag.parameters(), lr=0.1),
            torch.optim.Adagrad(embedding.parameters(), lr=0.1),
        ]
        for step in range(3):
            index = torch.tensor([[1, 1, 4], [step, 9, 2]], device=device)
            for optimizer in optimizers:
                optimizer.zero_grad()
            embedding(index).pow(2).sum().backward()
            bag(index).pow(2).sum().backward()
            embedding(index[0]).sum().backward()  # accumulates sparse gradients
            assert embedding.weight.grad.is_sparse
            for optimizer in optimizers:
                optimizer.step()
        return [embedding.weight.detach(), bag.weight.detach()]

    assert_same(run(DEVICE), run("cpu"))


def test_prints() -> None:
    text = repr(sparse(torch.sparse_coo).to(DEVICE))
    assert "device='neuron:0'" in text
    assert "layout=torch.sparse_coo" in text
    assert "crow_indices" in repr(sparse(torch.sparse_csr).to(DEVICE))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_saves_loads_and_copies(layout: torch.layout) -> None:
    there = sparse(layout).to(DEVICE)
    file = io.BytesIO()
    torch.save(there, file)
    file.seek(0)
    assert_same(torch.load(file), sparse(layout))
    file.seek(0)
    on_cpu = torch.load(file, map_location="cpu")
    assert on_cpu.device.type == "cpu"
    copied = copy.deepcopy(there)
    copied.values().zero_()
    assert_same(there, sparse(layout))


def test_lives_on_the_device_of_its_parts() -> None:
    there = sparse(torch.sparse_coo).to("neuron:1")
    assert (there * 2).device == torch.device("neuron:1")
    assert (there * 2)._values().device == torch.device("neuron:1")
    assert there.clone()._indices().device == torch.device("neuron:1")
    assert there.to_sparse_csr().crow_indices().device == torch.device("neuron:1")
    assert torch.zeros_like(there)._values().device == torch.device("neuron:1")
    assert torch.neuron.current_device() == 0


def test_refuses_operands_on_another_device() -> None:
    there = sparse(torch.sparse_coo).to(DEVICE)
    with pytest.raises(RuntimeError, match="same device"):
        torch.mm(there, torch.ones(4, 2))
    with pytest.raises(RuntimeError):
        torch.add(there, sparse(torch.sparse_coo))


def test_results_are_made_in_device_memory() -> None:
    before = torch.neuron.memory_allocated(0)
    there = torch.ones(300, 400, device=DEVICE).to_sparse()
    held = torch.neuron.memory_allocated(0) - before
    assert held >= 300 * 400 * (2 * 8 + 4)
    del there
    assert torch.neuron.memory_allocated(0) == before


def sampled_ops() -> list[Any]:
    return [
        pytest.param(op, layout, id=f"{op.full_name}-{layout}")
        for op in op_db
        for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_bsc)
        if op.supports_sparse_layout(layout)
        and torch.float32 in op.dtypes
        and "randn" not in op.name
    ]


def sparse_samples(op: Any, layout: torch.layout) -> Iterator[SampleInput]:
    """PyTorch's own, or sparse copies of the dense ones where it has none for an operator."""
    given = getattr(op, f"sample_inputs_{str(layout).partition('.')[2]}_func")
    if given.__name__ != "_sample_inputs_unspecified":
        yield from op.sample_inputs_sparse(layout, "cpu", torch.float32)
        return
    blocks = (1, 1) if layout is torch.sparse_bsc else None
    for sample in op.sample_inputs("cpu", torch.float32):
        try:
            there = sample.input.to_sparse(layout=layout, blocksize=blocks)
        except (RuntimeError, IndexError):
            continue  # a shape that this layout cannot take
        yield SampleInput(there, args=sample.args, kwargs=sample.kwargs)


@pytest.mark.parametrize(("op", "layout"), sampled_ops())
def test_op_db_samples(op: Any, layout: torch.layout) -> None:
    checked = 0
    for sample in sparse_samples(op, layout):
        checked += 1
        there = Mirror("cpu", DEVICE)(sample)
        try:
            expected = op(sample.input, *sample.args, **sample.kwargs)
        except (RuntimeError, ValueError) as refusal:
            with pytest.raises(type(refusal)):
                op(there.input, *there.args, **there.kwargs)
            continue
        assert_same(op(there.input, *there.args, **there.kwargs), expected)
    assert checked > 0


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_reducing_product_has_the_gradients_of_the_cpu(reduce: str) -> None:
    gradients = []
    for device in ("cpu", "neuron"):
        generator = torch.Generator().manual_seed(0)
        matrix = torch.randn(4, 5, generator=generator).relu().to_sparse_csr().to(device)
        matrix.requires_grad_()
        dense = torch.randn(5, 3, generator=generator).to(device).requires_grad_()
        torch.sparse.mm(matrix, dense, reduce).square().sum().backward()
        assert matrix.grad is not None and dense.grad is not None
        gradients.append((matrix.grad.cpu().to_dense(), dense.grad.cpu()))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)
