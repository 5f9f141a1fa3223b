"""nn.DataParallel and its copies and sums over the devices of one process."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.parallel import comm, parallel_apply, replicate

DEVICES = ["neuron:0", "neuron:1", "neuron:2", "neuron:3"]


def places(tensors) -> list[str]:
    return [str(tensor.device) for tensor in tensors]


@pytest.mark.parametrize("source", ["cpu", "neuron:2"])
def test_broadcast(source: str) -> None:
    tensor = torch.arange(6.0, device=source)
    copies = comm.broadcast(tensor, [0, "neuron:1", torch.device("neuron:2")])
    assert places(copies) == DEVICES[:3]
    assert all(torch.equal(each.cpu(), tensor.cpu()) for each in copies)


def test_broadcast_out() -> None:
    out = [torch.empty(2, device=device) for device in DEVICES]
    comm.broadcast(torch.ones(2, device="neuron"), out=out)
    assert all(each.tolist() == [1, 1] for each in out)
    with pytest.raises(RuntimeError, match="shape"):
        comm.broadcast(torch.ones(3, device="neuron"), out=out)
    with pytest.raises(RuntimeError, match="Exactly one"):
        comm.broadcast(torch.ones(2, device="neuron"))


def test_broadcast_coalesced_gives_each_device_all_tensors() -> None:
    tensors = [torch.ones(2, device="neuron"), torch.ones(3, dtype=torch.int64, device="neuron")]
    copies = comm.broadcast_coalesced(tensors, [0, 3])
    assert [places(each) for each in copies] == [["neuron:0"] * 2, ["neuron:3"] * 2]
    version = tensors[0]._version
    copies[0][0].add_(1)
    assert tensors[0]._version == version
    assert tensors[0].tolist() == [2, 2]


def test_reduce_add_sums_on_the_destination() -> None:
    inputs = [torch.full((2,), float(i), device=device) for i, device in enumerate(DEVICES)]
    total = comm.reduce_add(inputs, destination=2)
    assert total.device == torch.device("neuron:2")
    assert total.tolist() == [6, 6]
    assert inputs[0].tolist() == [0, 0]
    assert comm.reduce_add(inputs).device == torch.device("neuron:0")
    with pytest.raises(RuntimeError, match="destination"):
        comm.reduce_add(inputs[:2], destination=3)
    with pytest.raises(ValueError, match="shape"):
        comm.reduce_add([inputs[0], torch.ones(3, device="neuron:1")])
    with pytest.raises(ValueError, match="cpu"):
        comm.reduce_add([inputs[0], torch.ones(2)])


def test_reduce_add_coalesced_sums_each_tensor() -> None:
    inputs = [[torch.ones(2, device=d), torch.ones(3, device=d)] for d in DEVICES]
    sums = comm.reduce_add_coalesced(inputs, destination=1)
    assert places(sums) == ["neuron:1"] * 2
    assert [each.tolist() for each in sums] == [[4] * 2, [4] * 3]


@pytest.mark.parametrize("source", ["cpu", "neuron:1"])
def test_scatter_and_gather_are_inverse(source: str) -> None:
    tensor = torch.arange(20.0, device=source).view(10, 2)
    pieces = comm.scatter(tensor, range(4))
    assert [len(piece) for piece in pieces] == [3, 3, 3, 1]
    assert places(pieces) == DEVICES
    gathered = comm.gather(pieces, destination=3)
    assert gathered.device == torch.device("neuron:3")
    assert torch.equal(gathered.cpu(), tensor.cpu())
    assert torch.equal(comm.gather(pieces, destination="cpu"), tensor.cpu())


def test_scatter_with_sizes_dimension_and_out() -> None:
    tensor = torch.arange(12.0, device="neuron").view(2, 6)
    pieces = comm.scatter(tensor, [0, 1], chunk_sizes=[4, 2], dim=1)
    assert [tuple(piece.shape) for piece in pieces] == [(2, 4), (2, 2)]
    out = [torch.empty_like(piece) for piece in pieces]
    comm.scatter(tensor, dim=1, out=out)
    assert all(torch.equal(a, b) for a, b in zip(out, pieces, strict=True))
    with pytest.raises(RuntimeError, match="excludes"):
        comm.scatter(tensor, [0], out=out)


def test_complex_tensors_travel_as_pairs_of_reals() -> None:
    tensor = torch.randn(4, dtype=torch.complex64, device="neuron")
    pieces = comm.scatter(tensor, [0, 1])
    assert pieces[0].dtype == torch.float32
    assert torch.equal(torch.view_as_complex(comm.gather(pieces)), tensor)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 3))
        self.seen: list[str] = []

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> dict[str, torch.Tensor]:
        self.seen.append(str(x.device))
        return {"y": self.layers(x) * scale}


def test_data_parallel_matches_one_device_forward_and_backward() -> None:
    torch.manual_seed(0)
    alone = Net().eval()
    parallel = nn.DataParallel(copy.deepcopy(alone).to("neuron"))
    assert parallel.device_ids == [0, 1, 2, 3]
    batch = torch.randn(12, 5)
    expected = alone(batch, scale=2.0)["y"]
    output = parallel(batch.to("neuron"), scale=2.0)["y"]
    assert output.device == torch.device("neuron:0")
    torch.testing.assert_close(output.cpu(), expected)
    expected.square().sum().backward()
    output.square().sum().backward()
    for ours, theirs in zip(parallel.module.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)
    assert sorted(parallel.module.seen) == sorted(DEVICES)


def test_data_parallel_takes_cpu_input_and_trains() -> None:
    torch.manual_seed(0)
    model = nn.DataParallel(nn.Linear(4, 1).to("neuron"), device_ids=["neuron:0", "neuron:2"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(16, 4)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (model(batch) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


def test_replicas_are_on_their_devices_and_run_in_parallel() -> None:
    replicas = replicate(nn.Linear(2, 2).to("neuron"), [0, 1])
    assert [str(replica.weight.device) for replica in replicas] == DEVICES[:2]
    inputs = [(torch.ones(1, 2, device=device),) for device in DEVICES[:2]]
    first, second = parallel_apply(replicas, inputs)
    assert torch.equal(first.cpu(), second.cpu())


def test_error_in_a_replica_names_it() -> None:
    model = nn.DataParallel(nn.Linear(4, 1).to("neuron"))
    with pytest.raises(RuntimeError, match="in replica 0 on device 0"):
        model(torch.ones(8, 5, device="neuron"))
