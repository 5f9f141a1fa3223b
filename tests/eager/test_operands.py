"""Programs read memory as it is: bits that PyTorch sets on tensors must be data before."""

import threading
import time

import pytest
import torch

from tests.python_process import output_of
from torch_trainium import _C, eager
from torch_trainium.eager import calls
from torch_trainium.errors import StreamRaceWarning
from torch_trainium.neuron.cpu_fallbacks import fallback_is, native_means_expressible


@pytest.fixture(autouse=True)
def compiled():
    # Complex numbers, which no chip has, among them.
    with eager.eager_mode_is("compiled"), native_means_expressible(), fallback_is("error"):
        yield


def complex_pair(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    on_cpu = torch.randn(shape, dtype=torch.complex64)
    return on_cpu, on_cpu.to("neuron")


def test_conjugated_operands_are_conjugated():
    a, b = complex_pair(3, 3)
    torch.testing.assert_close(torch.mm(b.conj(), b).cpu(), torch.mm(a.conj(), a))


def test_a_clone_of_a_conjugate_is_conjugated():
    a, b = complex_pair(4)
    assert torch.equal(b.conj().clone().cpu(), a.conj().clone())
    assert not b.conj().resolve_conj().is_conj()


def test_negated_operands_are_negative():
    a, b = complex_pair(4)
    assert b.conj().imag.is_neg()
    torch.testing.assert_close((b.conj().imag + 1).cpu(), a.conj().imag + 1)


def test_writing_through_a_conjugate_conjugates():
    (a, b), (x, y) = complex_pair(3, 3), complex_pair(3, 3)
    torch.mm(a, a, out=x.conj())
    torch.mm(b, b, out=y.conj())
    torch.testing.assert_close(y.cpu(), x)


def test_materializing_counts_as_a_copy():
    _, b = complex_pair(3, 3)
    _C.reset_executed_ops()
    torch.mm(b.conj(), b)
    assert _C.executed_ops() == {"aten::copy_": 1, "aten::mm": 1}


def test_zeros_without_memory_are_zeros():
    zeros = torch._efficientzerotensor((3,), device="neuron")
    assert (zeros + 1).tolist() == [1, 1, 1]
    assert torch.sgn(zeros).tolist() == [0, 0, 0]
    assert zeros.clone().tolist() == [0, 0, 0]


def test_gradients_that_are_zeros_without_memory():
    a = torch.randn(4, device="neuron", requires_grad=True)
    torch.sgn(a).sum().backward()
    assert a.grad.tolist() == [0, 0, 0, 0]


def test_a_dtype_that_programs_lack_is_named():
    half = torch.randn(4).to(torch.complex32).to("neuron")
    with pytest.raises(NotImplementedError, match="complex32"):
        torch.ones_like(half)
    assert half.to(torch.complex64).shape == (4,)


@pytest.mark.parametrize("number", [2**40 + 3, -(2**33) - 1, 1e300, -1e20, float("nan")])
def test_numbers_convert_alike_on_the_first_and_on_later_calls(number):
    def outcome(call, tensor):
        try:
            return str(call(tensor.zero_(), number).cpu())
        except RuntimeError as refusal:
            return str(refusal)

    integers = torch.zeros(3, dtype=torch.int32, device="neuron")
    floats = torch.zeros(3, device="neuron")
    fill = torch.ops.aten.fill_.Scalar
    for tensor in (integers, floats) if isinstance(number, int) else (floats,):
        first = outcome(fill, tensor)
        assert outcome(fill, tensor) == first
        assert outcome(lambda *given: calls.call(fill, *given), tensor) == first


def test_other_threads_run_while_a_program_does():
    a = torch.randn(1024, 1024, device="neuron")
    a @ a
    *_, entry = calls.operator(torch.ops.aten.mm.default).entries.values()
    stamps: list[float] = []
    done = threading.Event()

    def stamp() -> None:
        while not done.is_set():
            stamps.append(time.perf_counter())
            time.sleep(0)

    thread = threading.Thread(target=stamp)
    thread.start()
    start = time.perf_counter()
    entry.run([a, a], [])  # a Python thread's own call: nothing above it lets go of the GIL
    end = time.perf_counter()
    done.set()
    thread.join()
    # A program that kept the GIL would let stamps happen after it at the earliest.
    assert any(start + 1e-4 < at < start + (end - start) / 2 for at in stamps)


GUARDED = """
import torch
from torch_trainium import eager
a = torch.arange(24.0).reshape(4, 6).to("neuron")
a[:, 1::2].mul_(3)
layer = torch.nn.Linear(6, 2).to("neuron")
torch.nn.functional.dropout(layer(a)).sum().backward()
print(a.sum().item(), layer.weight.grad.isfinite().all().item())
"""


def test_programs_run_where_the_host_may_not_touch_device_memory(tmp_path):
    environ = {
        "TORCH_TRAINIUM_EAGER": "compiled",
        "TORCH_TRAINIUM_FALLBACK": "error",
        "TORCH_TRAINIUM_CACHE": str(tmp_path),
        "TORCH_TRAINIUM_GUARD": "1",
    }
    assert output_of(GUARDED, environ=environ) == "564.0 True"


def test_the_sanitizer_sees_what_programs_read_and_write():
    side = torch.neuron.Stream()
    a = torch.ones(4096, device="neuron")
    torch.neuron.synchronize()
    with torch.neuron.sanitizer() as sanitizer, pytest.warns(StreamRaceWarning):
        torch.mul(a, 2, out=a)
        with torch.neuron.stream(side):
            torch.exp(a)
    (race,) = sanitizer.races
    assert race.later.operator == "aten::exp"
    assert race.later.sizes == (4096,)


FORKED = """
import os
import torch, torch_trainium
child = os.fork()
if child == 0:
    print((torch.ones(2, device="neuron") * 3).sum().item(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_process_forked_before_the_first_use_runs_programs(tmp_path):
    environ = {"TORCH_TRAINIUM_EAGER": "compiled", "TORCH_TRAINIUM_CACHE": str(tmp_path)}
    assert "6.0" in output_of(FORKED, environ=environ, timeout_seconds=120)
