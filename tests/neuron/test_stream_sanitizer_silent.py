"""Correct programs are silent under the stream sanitizer."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

STEPS = 4


@pytest.fixture(autouse=True)
def sanitizer():
    torch.manual_seed(0)
    with torch.neuron.sanitizer(error=True) as sanitizer:
        yield
    assert sanitizer.count == 0


def model(device: str = "neuron") -> nn.Module:
    return nn.Sequential(
        nn.Linear(16, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 4)
    ).to(device)


def loader(pin_memory: bool = True, workers: int = 0) -> DataLoader:
    data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
    return DataLoader(data, batch_size=8, pin_memory=pin_memory, num_workers=workers)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "Adagrad"])
@pytest.mark.parametrize("foreach", [False, True])
def test_training_on_one_stream(optimizer: str, foreach: bool) -> None:
    net = model()
    update = getattr(torch.optim, optimizer)(net.parameters(), lr=0.01, foreach=foreach)
    for x, y in loader():
        x, y = (each.to("neuron", non_blocking=True) for each in (x, y))
        nn.functional.cross_entropy(net(x), y).backward()
        update.step()
        update.zero_grad()


def test_training_on_a_side_stream() -> None:
    side = torch.neuron.Stream()
    net = model()
    update = torch.optim.AdamW(net.parameters())
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        for x, y in loader():
            x, y = (each.to("neuron", non_blocking=True) for each in (x, y))
            nn.functional.cross_entropy(net(x), y).backward()
            update.step()
            update.zero_grad()
    torch.neuron.current_stream().wait_stream(side)
    assert all(parameter.isfinite().all().item() for parameter in net.parameters())


class Prefetcher:
    """Copies the next batch on a stream of its own, as training scripts for GPUs do."""

    def __init__(self, batches) -> None:
        self.batches = iter(batches)
        self.stream = torch.neuron.Stream()
        self.preload()

    def preload(self) -> None:
        self.next = next(self.batches, None)
        if self.next is not None:
            with torch.neuron.stream(self.stream):
                self.next = [each.to("neuron", non_blocking=True) for each in self.next]

    def __iter__(self):
        while self.next is not None:
            torch.neuron.current_stream().wait_stream(self.stream)
            batch = self.next
            for each in batch:
                each.record_stream(torch.neuron.current_stream())
            self.preload()
            yield batch


@pytest.mark.parametrize("workers", [0, 2])
def test_prefetching_on_a_stream_and_logging_asynchronously(workers: int) -> None:
    net = model()
    update = torch.optim.AdamW(net.parameters())
    logged: list[tuple[torch.Tensor, torch.neuron.Event]] = []
    for _ in range(2):
        for x, y in Prefetcher(loader(workers=workers)):
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            update.step()
            update.zero_grad()
            host = loss.detach().to("cpu", non_blocking=True)
            logged.append((host, torch.neuron.current_stream().record_event()))
    for host, event in logged:
        event.synchronize()
        assert host.item() > 0


def test_prefetching_with_a_wait_in_place_of_record_stream() -> None:
    copies, main = torch.neuron.Stream(), torch.neuron.current_stream()
    net = model()
    for x, _ in loader():
        copies.wait_stream(main)
        with torch.neuron.stream(copies):
            x = x.to("neuron", non_blocking=True)
        main.wait_stream(copies)
        net(x).sum().backward()
        del x


def test_reading_the_loss_makes_record_stream_needless() -> None:
    copies = torch.neuron.Stream()
    net = model()

    def step(x: torch.Tensor) -> float:
        with torch.neuron.stream(copies):
            x = x.to("neuron", non_blocking=True)
        torch.neuron.current_stream().wait_stream(copies)
        loss = net(x).sum()
        loss.backward()
        return loss.item()

    assert all(isinstance(step(x), float) for x, _ in loader())


def test_branches_on_streams_and_their_backward_passes() -> None:
    main = torch.neuron.current_stream()
    streams = [torch.neuron.Stream() for _ in range(3)]
    branches = [model() for _ in streams]
    for x, _ in loader():
        x = x.to("neuron").requires_grad_()
        outputs = []
        for stream, branch in zip(streams, branches, strict=True):
            stream.wait_stream(main)
            with torch.neuron.stream(stream):
                outputs.append(branch(x))
        for stream, output in zip(streams, outputs, strict=True):
            main.wait_stream(stream)
            output.record_stream(main)
        torch.stack(outputs).sum().backward()
        assert x.grad is not None
        x.grad.sum().item()


def test_backward_pass_called_on_another_stream() -> None:
    side = torch.neuron.Stream()
    net = model()
    for x, _ in loader():
        side.wait_stream(torch.neuron.current_stream())
        with torch.neuron.stream(side):
            loss = net(x.to("neuron")).sum()
        torch.neuron.current_stream().wait_stream(side)
        loss.backward()
        for parameter in net.parameters():
            parameter.grad.norm()
            parameter.grad = None


def test_gradient_hooks_that_reduce_on_a_stream() -> None:
    main, reducer = torch.neuron.current_stream(), torch.neuron.Stream()
    net = model()
    reduced: list[torch.Tensor] = []

    def reduce(parameter: nn.Parameter) -> None:
        reducer.wait_stream(torch.neuron.current_stream())
        with torch.neuron.stream(reducer):
            bucket = parameter.grad.flatten().to(torch.bfloat16)
            parameter.grad.copy_(bucket.view_as(parameter.grad))
            reduced.append(bucket)
        parameter.grad.record_stream(reducer)

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, _ in loader():
        net(x.to("neuron")).sum().backward()
        main.wait_stream(reducer)
        reduced.clear()
        update.step()
        update.zero_grad()


def test_data_parallel() -> None:
    net = nn.DataParallel(model())
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader(pin_memory=False):
        nn.functional.cross_entropy(net(x), y.to("neuron")).backward()
        update.step()
        update.zero_grad()


def test_pipeline_over_devices() -> None:
    first, second = nn.Linear(16, 32).to("neuron:0"), nn.Linear(32, 4).to("neuron:1")
    for x, _ in loader():
        second(first(x.to("neuron:0")).relu().to("neuron:1")).sum().backward()


def test_mixed_precision() -> None:
    net = model()
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("neuron")
    for x, y in loader():
        with torch.autocast("neuron", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x.to("neuron")), y.to("neuron"))
        scaler.scale(loss).backward()
        scaler.unscale_(update)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(update)
        scaler.update()
        update.zero_grad()


def test_checkpointed_activations() -> None:
    net = model()
    for x, _ in loader():
        x = x.to("neuron").requires_grad_()
        checkpoint(net, x, use_reentrant=False).sum().backward()
        checkpoint(net, x, use_reentrant=True).sum().backward()


def test_activations_offloaded_to_the_host() -> None:
    net = model()
    for x, _ in loader():
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            loss = net(x.to("neuron")).sum()
        loss.backward()


def test_memory_pools() -> None:
    pool = torch.neuron.MemPool()
    side = torch.neuron.Stream()
    for _ in range(STEPS):
        with torch.neuron.use_mem_pool(pool):
            x = torch.ones(4096, device="neuron")
        side.wait_stream(torch.neuron.current_stream())
        with torch.neuron.stream(side), torch.neuron.use_mem_pool(pool):
            y = x * 2
        x.record_stream(side)
        torch.neuron.current_stream().wait_stream(side)
        y.add_(1)
        y.record_stream(torch.neuron.current_stream())
        del x, y


def test_columns_of_one_tensor_on_two_streams() -> None:
    streams = [torch.neuron.Stream() for _ in range(2)]
    x = torch.ones(64, 64, device="neuron")
    out = torch.empty_like(x)
    for _ in range(STEPS):
        for stream, source, target in zip(
            streams, x.chunk(2, dim=1), out.chunk(2, dim=1), strict=True
        ):
            stream.wait_stream(torch.neuron.current_stream())
            with torch.neuron.stream(stream):
                torch.mul(source, 2, out=target)
        for stream in streams:
            torch.neuron.current_stream().wait_stream(stream)
        out.sum()


def test_recurrent_and_sparse_layers() -> None:
    embedding = nn.Embedding(32, 16, sparse=True).to("neuron")
    lstm = nn.LSTM(16, 32, batch_first=True).to("neuron")
    update = torch.optim.SparseAdam(embedding.parameters())
    for _ in range(STEPS):
        ids = torch.randint(0, 32, (4, 8)).to("neuron", non_blocking=True)
        lstm(embedding(ids))[0].sum().backward()
        update.step()
        update.zero_grad()


def test_checkpoint_file_of_a_trained_model(tmp_path) -> None:
    net = model()
    net(torch.randn(8, 16, device="neuron")).sum().backward()
    torch.save(net.state_dict(), tmp_path / "net.pt")
    net.load_state_dict(torch.load(tmp_path / "net.pt", map_location="neuron"))
    assert repr(net[0].weight)
