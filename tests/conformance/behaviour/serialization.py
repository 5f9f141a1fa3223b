"""Saving, loading, copying and pickling."""

import copy
import io
import pickle
import tempfile
from pathlib import Path

import pytest
import torch


def _saved(value) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def test_tensors_come_back_to_their_device(device: str) -> None:
    values = torch.randn(3, 4)
    for index in (0, 1):
        loaded = torch.load(_saved(values.to(f"{device}:{index}")))
        assert loaded.device == torch.device(device, index)
        assert torch.equal(loaded.cpu(), values)


def test_map_location_both_ways(device: str) -> None:
    values = torch.randn(3)
    on_cpu = torch.load(_saved(values.to(device)), map_location="cpu")
    assert on_cpu.device.type == "cpu"
    assert torch.equal(on_cpu, values)
    for location in (device, f"{device}:1", torch.device(device, 1), {"cpu": f"{device}:1"}):
        moved = torch.load(_saved(values), map_location=location)
        assert moved.device.type == device
        assert torch.equal(moved.cpu(), values)
    renamed = torch.load(_saved(values.to(device)), map_location={f"{device}:0": f"{device}:1"})
    assert renamed.device.index == 1


def test_a_missing_index_is_refused(device: str) -> None:
    count = torch.accelerator.device_count()
    with pytest.raises(RuntimeError, match=str(count)):
        torch.load(_saved(torch.ones(1)), map_location=f"{device}:{count}")


def test_views_share_storage_after_loading(device: str) -> None:
    base = torch.arange(6.0, device=device)
    first, second = torch.load(_saved([base[:3], base[3:]]))
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert torch.equal(second.cpu(), torch.tensor([3.0, 4.0, 5.0]))


def test_strides_parameters_and_gradients_are_kept(device: str) -> None:
    values = torch.randn(3, 4, device=device).t()
    loaded = torch.load(_saved(values))
    assert loaded.stride() == values.stride()
    parameter = torch.load(_saved(torch.nn.Parameter(values, requires_grad=True)))
    assert isinstance(parameter, torch.nn.Parameter)
    assert parameter.requires_grad


def test_lazily_conjugated_tensors(device: str) -> None:
    values = torch.randn(3, dtype=torch.complex64, device=device).conj()
    loaded = torch.load(_saved(values))
    assert torch.equal(loaded.cpu(), values.cpu())


def test_memory_mapped_files(device: str) -> None:
    values = torch.randn(100)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.pt"
        torch.save({"on": values.to(device), "off": values}, path)
        loaded = torch.load(path, mmap=True, map_location=device)
        assert loaded["off"].device.type == device
        assert torch.equal(loaded["off"].cpu(), values)
        assert torch.equal(loaded["on"].cpu(), values)


def test_state_dicts_move_between_devices(device: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    twin = copy.deepcopy(model).to(device)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1)
    model.load_state_dict(torch.load(_saved(twin.state_dict())))
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert mine.device.type == "cpu"
        assert torch.equal(mine.detach(), other.detach().cpu())


def test_random_state_resumes(device: str) -> None:
    module = torch.get_device_module(device)
    state = torch.load(_saved(module.get_rng_state()))
    first = torch.rand(8, device=device)
    module.set_rng_state(state)
    assert torch.equal(torch.rand(8, device=device).cpu(), first.cpu())


def test_deepcopy(device: str) -> None:
    values = torch.randn(3, device=device, requires_grad=True)
    values.grad = torch.ones(3, device=device)
    twin = copy.deepcopy(values)
    assert twin.device == values.device
    assert twin.requires_grad
    assert torch.equal(twin.grad.cpu(), torch.ones(3))
    assert twin.data_ptr() != values.data_ptr()
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(values * 2)


def test_pickle(device: str) -> None:
    values = torch.randn(3, device=device)
    assert torch.equal(pickle.loads(pickle.dumps(values)).cpu(), values.cpu())
    assert pickle.loads(pickle.dumps(values.device)) == values.device
    layer = torch.nn.Linear(2, 2, device=device)
    twin = pickle.loads(pickle.dumps(layer))
    assert twin.weight.device.type == device


def test_safetensors(device: str) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    values = torch.randn(3, 4)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "values.safetensors")
        safetensors.save_file({"values": values.to(device)}, path)
        assert torch.equal(safetensors.load_file(path)["values"], values)
        moved = safetensors.load(Path(path).read_bytes())["values"].to(device)
        assert torch.equal(moved.cpu(), values)


def test_numpy_asks_for_a_cpu_tensor(device: str) -> None:
    with pytest.raises(TypeError, match="cpu"):
        torch.ones(2, device=device).numpy()
    assert torch.ones(2, device=device).cpu().numpy().sum() == 2
    assert torch.ones(2, device=device).numpy(force=True).sum() == 2


def test_tied_parameters_stay_tied(device: str) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 4)
            self.head = torch.nn.Linear(4, 5, bias=False)
            self.head.weight = self.embedding.weight

    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to(device)
    assert model.head.weight is model.embedding.weight
    assert optimizer.param_groups[0]["params"][0] is model.head.weight
