"""DataLoader with workers and pinned memory."""

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.tensor(float(index)), "y": torch.tensor(float(index**2))}


class OnDevice(Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(1, device="neuron")


@pytest.mark.parametrize("workers", [0, 2])
def test_pinned_batches_reach_the_device(workers: int) -> None:
    torch.ones(1, device="neuron")
    loader = DataLoader(Squares(), batch_size=8, num_workers=workers, pin_memory=True)
    total = torch.zeros((), device="neuron")
    for batch in loader:
        assert batch["x"].is_pinned()
        x, y = (batch[key].to("neuron", non_blocking=True) for key in ("x", "y"))
        assert torch.equal(x * x, y)
        total += x.sum()
    assert total.item() == sum(range(32))


def test_spawned_workers_feed_the_device() -> None:
    loader = DataLoader(
        TensorDataset(torch.arange(8.0)), 4, num_workers=1, multiprocessing_context="spawn"
    )
    assert [batch.to("neuron").sum().item() for (batch,) in loader] == [6.0, 22.0]


def test_forked_worker_that_touches_the_device_gets_the_remedy() -> None:
    torch.ones(1, device="neuron")
    loader = DataLoader(OnDevice(), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="spawn"):
        next(iter(loader))


def test_pinned_memory_is_host_memory() -> None:
    pinned = torch.ones(4).pin_memory()
    assert pinned.is_pinned()
    assert pinned.device.type == "cpu"
    assert not torch.ones(4).is_pinned()
    assert torch.empty(4, pin_memory=True).is_pinned()
    assert pinned.to("neuron", non_blocking=True).sum().item() == 4
