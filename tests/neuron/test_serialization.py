"""Checkpoints, pickles and copies of neuron tensors."""

import copy
import io
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.complex64,
    torch.int64,
    torch.bool,
    torch.uint16,
    torch.float8_e4m3fn,
]


def saved(value: object) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("dtype", DTYPES)
def test_save_and_load_keep_device_dtype_and_bits(dtype: torch.dtype) -> None:
    host = torch.randint(0, 2, (3, 5)).to(dtype)
    loaded = torch.load(saved(host.to("neuron:1")))
    assert loaded.device == torch.device("neuron:1")
    assert loaded.dtype == dtype
    assert torch.equal(loaded.cpu().view(torch.uint8), host.view(torch.uint8))


@pytest.mark.parametrize(
    ("source", "map_location", "expected"),
    [
        ("neuron:1", "cpu", "cpu"),
        ("cpu", "neuron", "neuron:0"),
        ("cpu", "neuron:2", "neuron:2"),
        ("neuron:1", "neuron:3", "neuron:3"),
        ("neuron:1", torch.device("neuron:2"), "neuron:2"),
        ("neuron:1", {"neuron:1": "cpu"}, "cpu"),
        ("neuron:1", lambda storage, location: storage.neuron(3), "neuron:3"),
    ],
)
def test_map_location(source: str, map_location: object, expected: str) -> None:
    loaded = torch.load(saved(torch.arange(6.0, device=source)), map_location=map_location)
    assert loaded.device == torch.device(expected)
    assert torch.equal(loaded.cpu(), torch.arange(6.0))


def test_load_to_missing_device_says_how_many_there_are() -> None:
    with pytest.raises(RuntimeError, match="neuron"):
        torch.load(saved(torch.ones(1)), map_location="neuron:9")


def test_mmap_load_reaches_the_device(tmp_path: Path) -> None:
    torch.save({"w": torch.arange(100.0)}, tmp_path / "checkpoint.pt")
    loaded = torch.load(tmp_path / "checkpoint.pt", map_location="neuron", mmap=True)
    assert loaded["w"].device.type == "neuron"
    assert torch.equal(loaded["w"].cpu(), torch.arange(100.0))


def test_views_share_storage_after_load() -> None:
    base = torch.zeros(4, 4, device="neuron")
    loaded = torch.load(saved([base, base[1], base.t()]))
    loaded[0].fill_(7)
    assert loaded[1].tolist() == [7.0] * 4
    assert loaded[2].sum().item() == 112


def test_module_and_optimizer_checkpoint_resumes_exactly() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 4).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    batch = torch.randn(8, 4, device="neuron")

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        model(batch).square().sum().backward()
        optimizer.step()

    step(model, optimizer)
    checkpoint = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    step(model, optimizer)
    resumed = nn.Linear(4, 4).to("neuron")
    resumed_optimizer = torch.optim.AdamW(resumed.parameters(), lr=0.1)
    state = torch.load(checkpoint, map_location="cpu")
    resumed.load_state_dict(state["model"])
    resumed_optimizer.load_state_dict(state["optimizer"])
    step(resumed, resumed_optimizer)
    assert torch.equal(resumed.weight, model.weight)


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_pickle_and_deepcopy_keep_device_and_separate_memory(copied) -> None:
    tensor = torch.arange(4.0, device="neuron:2", requires_grad=True)
    other = copied(tensor)
    assert other.device == tensor.device
    assert other.requires_grad
    with torch.no_grad():
        other.zero_()
    assert tensor.tolist() == [0, 1, 2, 3]


def test_deepcopy_of_a_module_keeps_ties() -> None:
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]).to("neuron")
    model[1].weight = model[0].weight
    other = copy.deepcopy(model)
    assert other[0].weight is other[1].weight
    assert other[0].weight is not model[0].weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_safetensors_both_ways(tmp_path: Path, dtype: torch.dtype) -> None:
    path = tmp_path / "model.safetensors"
    tensor = torch.arange(10, device="neuron:1").to(dtype)
    safetensors.torch.save_file({"w": tensor}, path)
    loaded = safetensors.torch.load_file(path)["w"].to("neuron:1")
    assert loaded.dtype == dtype
    assert torch.equal(loaded, tensor)


def test_storage_moves_both_ways() -> None:
    storage = torch.arange(4, dtype=torch.uint8).untyped_storage()
    moved = storage.neuron(1)
    assert moved.device == torch.device("neuron:1")
    assert moved.is_neuron
    assert moved.cpu().tolist() == [0, 1, 2, 3]
