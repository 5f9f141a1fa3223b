"""When device work starts and ends on the virtual timeline."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import torch

from torch_trainium import _C
from torch_trainium.neuron.virtual_time import timeline

# Long on the device, short on this host.
SIZE = 1024


def on_device(*sizes, dtype=torch.bfloat16):
    return torch.zeros(*sizes, dtype=dtype, device="neuron")


@pytest.fixture
def square():
    matrix = on_device(SIZE, SIZE)
    torch.neuron.synchronize()
    return matrix


def records_of(run):
    with timeline() as scope:
        run()
    return scope.snapshot.records


def repeat(matrix, times):
    """Matrix products that keep the device busier than the host that asks for them."""
    return [torch.mm(matrix, matrix) for _ in range(times)]


def big():
    return on_device(2048, 2048)


def test_work_of_one_stream_runs_in_order_without_overlap(square):
    records = records_of(lambda: repeat(square, 4))
    assert [record.operator for record in records] == ["aten::mm"] * 4
    for first, second in pairwise(records):
        assert second.start_ps >= first.end_ps
        assert second.issued_ps > first.issued_ps


def test_work_starts_after_the_host_asked_for_it(square):
    for record in records_of(lambda: repeat(square, 3)):
        assert record.start_ps >= record.issued_ps
        assert record.end_ps > record.start_ps


def test_a_chain_of_small_operators_is_launch_bound():
    small = on_device(8, 8)
    records = records_of(lambda: small.add(1).mul(2).sub(3).neg())
    assert [record.bound for record in records] == ["launch"] * 4


def test_big_products_are_bound_by_the_tensor_engine():
    matrix = big()
    records = records_of(lambda: repeat(matrix, 4))
    assert [record.bound for record in records[1:]] == ["tensor"] * 3
    assert records[2].start_ps == records[1].end_ps


def elapsed_ps(run):
    """From the first start to the last end, once the core has loaded the program."""
    run()
    torch.neuron.synchronize()
    records = records_of(run)
    return max(r.end_ps for r in records) - min(r.start_ps for r in records)


def test_two_streams_of_compute_take_as_long_as_one():
    matrix = big()
    streams = [torch.neuron.Stream(), torch.neuron.Stream()]

    def two_streams():
        for turn in range(6):
            with torch.neuron.stream(streams[turn % 2]):
                torch.mm(matrix, matrix)

    assert elapsed_ps(two_streams) == elapsed_ps(lambda: repeat(matrix, 6))


def test_compute_and_a_copy_overlap():
    matrix = big()
    pinned = torch.zeros(64 << 20, dtype=torch.uint8, pin_memory=True)
    target = torch.empty_like(pinned, device="neuron")
    side = torch.neuron.Stream()

    def copy():
        with torch.neuron.stream(side):
            target.copy_(pinned, non_blocking=True)

    def both():
        copy()
        repeat(matrix, 8)

    copy_ps = elapsed_ps(copy)
    compute_ps = elapsed_ps(lambda: repeat(matrix, 8))
    both_ps = elapsed_ps(both)
    assert max(copy_ps, compute_ps) <= both_ps < 0.8 * (copy_ps + compute_ps)


def test_a_stream_waits_for_an_event_of_another():
    matrix = big()
    side = torch.neuron.Stream()
    pinned = torch.zeros(64 << 20, dtype=torch.uint8, pin_memory=True)

    def copy_then_compute():
        with torch.neuron.stream(side):
            pinned.to("neuron", non_blocking=True)
        torch.neuron.current_stream().wait_stream(side)
        torch.mm(matrix, matrix)

    copy, product = records_of(copy_then_compute)
    assert copy.queue == "copy_in"
    assert product.start_ps >= copy.end_ps


def test_devices_run_at_the_same_time():
    matrices = [big(), big().to("neuron:1")]

    def alternate():
        for _ in range(4):
            for matrix in matrices:
                with torch.neuron.device(matrix.device):
                    torch.mm(matrix, matrix)

    alone_ps = elapsed_ps(lambda: repeat(matrices[0], 4))
    assert elapsed_ps(alternate) < 1.5 * alone_ps


def test_a_copy_between_devices_waits_for_both():
    first, second = big(), big().to("neuron:1")
    torch.neuron.synchronize(1)

    def copy_across():
        torch.mm(first, first)
        second.copy_(first, non_blocking=True)
        torch.mm(first, first)

    product, copy, after = records_of(copy_across)
    assert copy.device == 1
    assert copy.start_ps >= product.end_ps
    assert after.start_ps >= copy.end_ps


def test_a_core_takes_time_to_change_programs():
    small = on_device(8, 8)
    same = elapsed_ps(lambda: [small.neg() for _ in range(6)])
    alternating = elapsed_ps(lambda: [torch.neg(small) if i % 2 else small.abs() for i in range(6)])
    assert alternating > same


def test_events_measure_the_device_and_not_the_host(square):
    times_ms = []
    repeat(square, 1)
    for _ in range(2):
        torch.neuron.synchronize()
        start = torch.neuron.Event(enable_timing=True)
        end = torch.neuron.Event(enable_timing=True)
        start.record()
        repeat(square, 5)
        end.record()
        end.synchronize()
        times_ms.append(start.elapsed_time(end))
    assert times_ms[0] == times_ms[1] > 0


def test_elapsed_time_needs_events_that_have_passed():
    matrix = big()
    start = torch.neuron.Event(enable_timing=True)
    end = torch.neuron.Event(enable_timing=True)
    start.record()
    repeat(matrix, 50)
    end.record()
    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)
    end.synchronize()
    assert start.elapsed_time(end) > 0


def test_sleep_keeps_the_stream_busy():
    start = torch.neuron.Event(enable_timing=True)
    end = torch.neuron.Event(enable_timing=True)
    torch.neuron.synchronize()
    start.record()
    torch.neuron._sleep(5_000_000)
    assert not torch.neuron.current_stream().query()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) == pytest.approx(5, rel=0.02)
    with pytest.raises(ValueError, match="at least 0"):
        torch.neuron._sleep(-1)


def test_polling_ends():
    matrix = big()
    event = torch.neuron.Event()
    repeat(matrix, 50)
    event.record()
    assert not event.query()
    polls = 1
    while not event.query():
        polls += 1
    assert polls > 1
    assert torch.neuron.current_stream().query()


def test_synchronize_brings_the_host_to_the_device():
    repeat(big(), 50)
    assert _C.timeline.host_ps() < _C.timeline.device_ps(0)
    torch.neuron.synchronize()
    assert _C.timeline.host_ps() >= _C.timeline.device_ps(0)


@pytest.mark.parametrize(
    "read", [lambda t: t.item(), lambda t: t.cpu(), lambda t: t.tolist(), lambda t: t.equal(t)]
)
def test_reading_a_value_waits_for_the_device(read):
    result = repeat(big(), 20)[-1].sum()
    read(result)
    assert _C.timeline.host_ps() >= _C.timeline.device_ps(0)


def test_a_non_blocking_copy_does_not_wait():
    source = big()
    pinned = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
    torch.neuron.synchronize()
    pinned.copy_(source, non_blocking=True)
    assert _C.timeline.host_ps() < _C.timeline.device_ps(0)
    pinned.copy_(source)
    assert _C.timeline.host_ps() >= _C.timeline.device_ps(0)


def test_an_operator_on_the_cpu_makes_the_host_wait():
    (record,) = records_of(lambda: torch.linalg.cholesky_ex(torch.eye(64, device="neuron")))[-1:]
    assert (record.cost_class, record.bound) == ("cpu_fallback", "host")
    assert _C.timeline.host_ps() >= record.end_ps


def test_views_and_allocations_take_no_time(square):
    def views():
        for result in (square.t()[1:], square.view(-1), torch.empty_like(square)):
            assert result.is_neuron
        torch.ops.aten._unsafe_view(square, (-1,))

    before_ps = _C.timeline.host_ps()
    views()
    assert _C.timeline.host_ps() == before_ps
    assert not records_of(views)


def test_backward_starts_where_its_caller_stands_and_the_caller_goes_on_after_it():
    weight = big().requires_grad_()
    torch.neuron.synchronize()
    with timeline() as scope:
        (weight * 2).sum().backward()
        before_ps = _C.timeline.host_ps()
        weight.detach().add(1)
    *work, last = scope.snapshot.records
    backward = [record for record in work if record.is_backward]
    forward = [record for record in work if not record.is_backward]
    assert backward
    assert backward[0].issued_ps > max(record.issued_ps for record in forward)
    assert before_ps >= max(record.issued_ps for record in work)
    assert last.issued_ps > backward[-1].issued_ps


def test_repeated_training_steps_take_the_same_time():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
    model.to("neuron")
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.ones(32, 64, device="neuron")

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    step()
    spans = []
    for _ in range(3):
        with timeline() as scope:
            step()
        spans.append(scope.snapshot.duration_ps)
    assert spans[0] == spans[1] == spans[2] > 0


def test_each_thread_has_its_own_host_time(square):
    """Two threads ask for work at once: it takes each as long as one alone."""
    torch.neuron.synchronize()
    start_ps = _C.timeline.host_ps()
    repeat(square, 3)
    alone_ps = _C.timeline.host_ps() - start_ps
    ended_ps = []

    def ask():
        repeat(square, 3)
        ended_ps.append(_C.timeline.host_ps())

    start_ps = _C.timeline.host_ps()
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended_ps == [start_ps + alone_ps] * 2


def test_a_thread_that_ends_takes_the_first_one_along(square):
    before_ps = _C.timeline.host_ps()
    thread = threading.Thread(target=lambda: repeat(square, 3))
    thread.start()
    thread.join()
    assert _C.timeline.host_ps() > before_ps


PROGRAM = """
import torch
from torch_trainium.neuron.virtual_time import timeline
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Linear(8 * 30 * 30, 10)).to("neuron")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with timeline() as scope:
    for _ in range(3):
        optimizer.zero_grad()
        images = torch.randn(16, 3, 32, 32, device="neuron")
        torch.nn.functional.cross_entropy(model(images), torch.arange(16, device="neuron") % 10
                                          ).backward()
        optimizer.step()
print([record[:12] for record in scope.snapshot.records])
"""


def test_times_are_the_same_on_every_run_and_with_any_thread_count():
    printed = set()
    for threads in ("1", "2", "2", "5"):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.add(run.stdout)
    (text,) = printed
    assert "aten::nll_loss_forward" in text


def test_operands_are_described_in_the_order_of_the_arguments():
    (product,) = records_of(lambda: torch.mm(on_device(32, 64), on_device(64, 128)))[-1:]
    assert product.flops == 2 * 32 * 64 * 128
    image, kernels = on_device(1, 3, 64, 64), on_device(16, 3, 7, 7)
    (convolution,) = records_of(lambda: torch.conv2d(image, kernels, stride=2, padding=3))[-1:]
    assert convolution.flops == 2 * 16 * 3 * 7 * 7 * 32 * 32


def test_python_numbers_are_no_operands(square):
    by_int, by_float = records_of(lambda: (square * 2, square * 2.5))
    assert by_float.bound != "host"
    assert by_float.hbm_bytes == by_int.hbm_bytes


def two_device_backward(models):
    x = torch.ones(8, 64, device="neuron")
    other = models[1](x.to("neuron:1")).sum().to("neuron")
    (models[0](x).sum() + other).backward()


def test_a_backward_pass_over_several_devices_takes_the_same_time_every_time():
    models = [
        torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))).to(f"neuron:{i}")
        for i in range(2)
    ]
    two_device_backward(models)
    spans = set()
    for _ in range(5):
        torch.neuron.synchronize(1)
        with timeline() as scope:
            two_device_backward(models)
        spans.add(scope.snapshot.duration_ps)
    assert len(spans) == 1


def test_data_parallel_takes_the_same_time_every_time():
    model = torch.nn.DataParallel(torch.nn.Linear(64, 64).to("neuron"), device_ids=[0, 1, 2, 3])
    batch = torch.ones(16, 64, device="neuron")

    def step():
        model(batch).sum().backward()
        for device in range(4):
            torch.neuron.synchronize(device)

    step()
    spans = set()
    for _ in range(5):
        with timeline() as scope:
            step()
        spans.add(scope.snapshot.duration_ps)
    assert len(spans) == 1


def test_what_another_thread_waited_for_has_passed():
    start = torch.neuron.Event(enable_timing=True)
    end = torch.neuron.Event(enable_timing=True)
    start.record()
    torch.neuron._sleep(10_000_000)
    end.record()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(torch.neuron.synchronize).result()
        assert start.elapsed_time(end) == pytest.approx(10, rel=0.02)


def test_copies_between_devices_run_over_links_beside_programs():
    source = torch.zeros(64 << 20, dtype=torch.uint8, device="neuron")
    matrix = big()
    (copy,) = records_of(lambda: source.to("neuron:1"))
    assert copy.queue == "collective"
    bytes_per_second = source.numel() / (copy.duration_ps * 1e-12)
    assert 1e9 < bytes_per_second < 200e9

    def both():
        source.to("neuron:1", non_blocking=True)
        with torch.neuron.stream(torch.neuron.Stream()):
            repeat(matrix, 8)

    assert elapsed_ps(both) < copy.duration_ps + elapsed_ps(lambda: repeat(matrix, 8))


def test_backward_passes_run_on_the_thread_that_calls_them():
    threads = []
    leaf = torch.ones(2, device="neuron", requires_grad=True)
    leaf.register_hook(lambda grad: threads.append(threading.get_ident()))
    (leaf * 2).sum().backward()
    assert threads == [threading.get_ident()]
