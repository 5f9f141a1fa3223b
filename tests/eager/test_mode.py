"""Operators as compiled programs on the device."""

import threading

import pytest
import torch

from tests.python_process import output_of
from torch_trainium import _C, eager
from torch_trainium.engines import _xla_buffers
from torch_trainium.engines.programs import program_cache
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible


@pytest.fixture(autouse=True)
def compiled():
    with (
        eager.eager_mode_is("compiled"),
        native_means_expressible(),
        torch.neuron.fallback_is("error"),
    ):
        yield


def neuron(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype).to("neuron")


def test_programs_compute_what_the_cpu_computes():
    a, b = neuron(5, 7), neuron(7)
    torch.testing.assert_close((a * b + 1).cpu(), a.cpu() * b.cpu() + 1)


def test_a_program_runs_where_the_host_engine_would():
    a = neuron(3)
    _C.reset_executed_ops()
    before = _xla_buffers.bytes_stored()
    torch.exp(a)
    assert _C.executed_ops()["aten::exp"] == 1
    assert _xla_buffers.bytes_stored() - before == 12


def test_in_place_operators_write_into_a_strided_window():
    a = neuron(4, 6)
    expected = a.cpu()
    expected[:, 1::2].mul_(3)
    a[:, 1::2].mul_(3)
    torch.testing.assert_close(a.cpu(), expected)


def test_an_operand_may_be_the_result():
    a = neuron(6)
    expected = a.cpu()
    torch.add(expected, expected, out=expected)
    torch.add(a, a, out=a)
    torch.testing.assert_close(a.cpu(), expected)


def test_out_is_resized():
    a = neuron(2, 3)
    out = torch.empty(0, device="neuron")
    torch.mul(a, 2.0, out=out)
    torch.testing.assert_close(out.cpu(), a.cpu() * 2)


def test_a_new_number_compiles_nothing():
    a = neuron(9)
    torch.add(a, a, alpha=0.5)
    compiles = program_cache().statistics.compiles
    for step in range(5):
        torch.testing.assert_close(
            torch.add(a, a, alpha=step).cpu(), torch.add(a.cpu(), a.cpu(), alpha=step)
        )
    assert program_cache().statistics.compiles == compiles


def test_a_number_beside_a_tensor_does_not_promote_it():
    a = neuron(3, dtype=torch.bfloat16)
    assert (a + 1.5).dtype is torch.bfloat16
    assert (a + torch.tensor(1.5, dtype=torch.float64)).dtype is torch.bfloat16


def test_an_index_outside_raises_index_error():
    with pytest.raises(IndexError, match="out of range"):
        neuron(4).index_select(0, torch.tensor([9], device="neuron"))


def test_integer_division_by_zero_raises():
    a = torch.tensor([4, 2], device="neuron")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.div(a, torch.tensor([2, 0], device="neuron"), rounding_mode="floor")


def test_tensors_on_two_devices_are_refused():
    with pytest.raises(RuntimeError, match="same device"):
        neuron(3) + torch.randn(3)


def test_gradients_come_from_programs_too():
    a = neuron(4, 3).requires_grad_()
    b = a.detach().cpu().requires_grad_()
    torch.tanh(a).sum().backward()
    torch.tanh(b).sum().backward()
    torch.testing.assert_close(a.grad.cpu(), b.grad)


def test_empty_tensors_need_no_program():
    assert torch.exp(neuron(0, 3)).shape == (0, 3)


def test_threads_run_one_program_at_once():
    a = neuron(64, 64)
    expected = a.cpu() @ a.cpu()
    wrong = []

    def work():
        for _ in range(20):
            if not torch.allclose((a @ a).cpu(), expected, atol=1e-4):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_timeline_charges_a_program():
    a = neuron(128, 128)
    with torch.neuron.timeline() as scope:
        a @ a
    assert [record.operator for record in scope.snapshot.records] == ["aten::mm"]


def test_a_fallback_warns_once_with_the_line():
    a = torch.randn(4, dtype=torch.float32).to(torch.complex32).to("neuron")
    torch.neuron.reset_fallbacks()
    with (
        torch.neuron.fallback_is("warn"),
        pytest.warns(torch.neuron.FallbackWarning, match="complex32.*test_mode.py"),
    ):
        torch.abs(a)
    assert torch.neuron.fallback_calls()["aten::abs"] == 1


def test_a_fallback_can_be_an_error():
    a = torch.randn(4, dtype=torch.float32).to(torch.complex32).to("neuron")
    with pytest.raises(NotImplementedError, match=r"aten::neg.*complex32"):
        torch.neg(a)


def test_the_variable_sets_the_mode():
    code = "import torch; from torch_trainium import eager; print(eager.eager_mode())"
    assert output_of(code, environ={"TORCH_TRAINIUM_EAGER": "compiled"}) == "compiled"
    assert output_of(code) == "host"


@pytest.mark.parametrize(
    "write",
    [
        lambda a: a[:1].expand(3, 3).add_(1),
        lambda a: a[1:].add_(a[:-1]),
        lambda a: a.add_(a.t()),
        lambda a: torch.exp(a.t(), out=a),
    ],
)
def test_memory_that_is_written_twice_or_read_elsewhere_is_refused(write):
    a = torch.ones(3, 3, device="neuron")
    with pytest.raises(RuntimeError, match="unsupported operation"):
        write(a)
    assert torch.equal(a.cpu(), torch.ones(3, 3))


def test_an_expanded_tensor_can_be_filled():
    assert torch.ones(1, device="neuron").expand(3).fill_(2).tolist() == [2, 2, 2]


def test_products_of_two_dtypes_are_the_cpus_error():
    a = torch.ones(2, 2, device="neuron")
    with eager.fallback_is("allow"), pytest.raises(RuntimeError, match="dtype"):
        a @ a.int()
