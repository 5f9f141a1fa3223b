"""Many Python threads on the device at once."""

import threading
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

THREADS = 8


def run_in_threads(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Run `work(i)` in each thread, all starting together; raises what the first one raised."""
    errors: list[BaseException] = []
    together = threading.Barrier(threads)

    def run(number: int) -> None:
        together.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - carried to the test's thread
            errors.append(error)

    running = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


def chain(device: str, seed: int) -> Tensor:
    """Work of many kinds and sizes whose result depends on every one of its intermediates."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(4, 4).to(device)
    for _ in range(60):
        size = int(torch.randint(4, 200, (), generator=generator))
        x = torch.rand(size, size, generator=generator).to(device)
        y = (x @ x.t() / size).sort(dim=0).values.cumsum(1)
        y[x > 0.5] = 0.0
        total += y[:4, :4] + F.avg_pool2d(y[None, None], 2).mean()
    return total


def test_results_are_those_of_one_thread() -> None:
    expected = [chain("cpu", seed) for seed in range(THREADS)]

    def work(number: int) -> None:
        assert torch.equal(chain("neuron", number).cpu(), expected[number])

    run_in_threads(work)


def test_threads_on_different_devices_do_not_mix() -> None:
    devices = torch.neuron.device_count()

    def work(number: int) -> None:
        torch.neuron.set_device(number % devices)
        for _ in range(100):
            x = torch.full((64,), float(number), device="neuron")
            assert x.device.index == torch.neuron.current_device() == number % devices
            assert (x + number).sum().item() == 128 * number

    run_in_threads(work)


def test_no_grad_holds_for_its_thread_alone() -> None:
    weight = torch.ones(8, device="neuron", requires_grad=True)

    def work(number: int) -> None:
        for _ in range(100):
            with torch.set_grad_enabled(number % 2 == 0):
                assert (weight * 2).requires_grad == (number % 2 == 0)

    run_in_threads(work)


def test_gradients_of_many_threads_add_up_in_a_shared_parameter() -> None:
    weight = torch.ones(16, device="neuron", requires_grad=True)

    def work(number: int) -> None:
        for _ in range(25):
            (weight * float(number)).sum().backward()

    run_in_threads(work)
    assert weight.grad is not None
    assert weight.grad.tolist() == [25.0 * sum(range(THREADS))] * 16


def test_backward_through_several_devices() -> None:
    devices = torch.neuron.device_count()
    leaf = torch.ones(32, requires_grad=True)
    total = torch.zeros(())
    for device in range(devices):
        x = leaf.to(f"neuron:{device}")
        for _ in range(20):
            x = x * 1.0
        total = total + x.sum().cpu() * (device + 1)
    total.backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [devices * (devices + 1) / 2] * 32


def test_tensors_freed_by_other_threads_leave_nothing_allocated() -> None:
    before = torch.neuron.memory_allocated()
    shelf: list[list[Tensor]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        for size in range(1, 200):
            shelf[(number + size) % THREADS].append(torch.full((size,), 1.0, device="neuron"))
            if size % 10 == 0:
                shelf[number].clear()

    run_in_threads(work)
    shelf.clear()
    assert torch.neuron.memory_allocated() == before


def test_random_numbers_of_threads_do_not_depend_on_timing() -> None:
    generators = [torch.Generator("neuron").manual_seed(i) for i in range(THREADS)]
    drawn: list[list[Tensor]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        for _ in range(50):
            drawn[number].append(torch.rand(33, generator=generators[number], device="neuron"))

    run_in_threads(work)
    for number in range(THREADS):
        alone = torch.Generator("neuron").manual_seed(number)
        for values in drawn[number]:
            assert torch.equal(values, torch.rand(33, generator=alone, device="neuron"))
