"""What falls back to the CPU is counted, warned of and charged, the same in both eager modes."""

import threading
import warnings

import pytest
import torch

from tests.python_process import output_of
from torch_trainium import eager
from torch_trainium.errors import FallbackWarning
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

F64 = torch.float64


@pytest.fixture(autouse=True, params=["host", "compiled"])
def mode(request):
    with eager.eager_mode_is(request.param), torch.neuron.fallback_is("allow"):
        torch.neuron.reset_fallbacks()
        yield request.param
        torch.neuron.reset_fallbacks()


# PyTorch has no kernel of it for the device, and there is no lowering.
LIBRARY = torch.library.Library("fallback_test", "FRAGMENT")
LIBRARY.define("reverse(Tensor x) -> Tensor")
LIBRARY.impl("reverse", lambda x: x.flip(0), "CPU")
reverse = torch.ops.fallback_test.reverse


def neuron(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype).to("neuron")


def test_native_operators_are_no_fallbacks():
    a = neuron(4, 4)
    torch.relu(a @ a + 1).sum().item()
    assert torch.neuron.fallbacks() == {}


def test_an_operator_that_the_chip_refuses_falls_back_and_is_right():
    a = neuron(5)
    assert torch.equal(reverse(a).cpu(), a.cpu().flip(0))
    (total,) = torch.neuron.fallbacks().values()
    assert total.calls == 1
    assert "no lowering" in total.reason


def test_bytes_and_time_are_counted():
    a = neuron(1000)
    before = torch.neuron.timeline().operators.get("fallback_test::reverse")
    reverse(a)
    total = torch.neuron.fallbacks()["fallback_test::reverse"]
    assert total.bytes_moved == 4000 + 4000
    after = torch.neuron.timeline().operators["fallback_test::reverse"]
    charged_ps = after.device_ps - (before.device_ps if before else 0)
    assert total.device_us == charged_ps / 1e6 > 0


def test_a_dtype_that_the_chip_does_not_have_falls_back():
    a = neuron(3, dtype=F64)
    torch.neuron.reset_fallbacks()
    torch.exp(a)
    assert "NCC_ESPP004" in torch.neuron.fallbacks()["aten::exp"].reason


def test_a_use_that_the_chip_refuses_falls_back_alone():
    a = torch.zeros(4, dtype=torch.int64, device="neuron")
    places, values = (torch.tensor(numbers).to("neuron") for numbers in ([1, 1, 2], [5, 5, 7]))
    a.index_put_((places,), values)
    a.put_(places, values, accumulate=False)
    a.float().put_(places, values.float(), accumulate=True)
    assert torch.neuron.fallbacks() == {}
    a.index_put_((places,), values, accumulate=True)
    (reason,) = (total.reason for total in torch.neuron.fallbacks().values())
    assert "accumulate=True" in reason
    assert "NCC_EVRF016" in reason
    assert a.tolist() == [0, 15, 14, 0]


def test_uses_are_told_apart_in_the_out_form():
    a, out = (torch.zeros(4, dtype=torch.int32, device="neuron") for _ in range(2))
    index, values = torch.tensor([0, 3]).to("neuron"), a[:2] + 1
    torch.ops.aten.put.out(a, index, values, accumulate=False, out=out)
    assert torch.neuron.fallbacks() == {}
    torch.ops.aten.put.out(a, index, values, accumulate=True, out=out)
    assert "aten::put.out" in torch.neuron.fallbacks()


def test_a_number_of_another_dtype_is_no_fallback():
    a = neuron(3)
    a + 1.5
    a * torch.tensor(2.0, dtype=F64)
    assert torch.neuron.fallbacks() == {}


def test_a_dtype_asked_for_is_one_that_is_used():
    torch.sum(neuron(3), dtype=F64)
    assert "aten::sum" in torch.neuron.fallbacks()


def test_a_result_of_a_missing_dtype_makes_a_fallback():
    a = torch.arange(1, 4, device="neuron")
    default = torch.get_default_dtype()
    torch.set_default_dtype(F64)
    try:
        a / a
    finally:
        torch.set_default_dtype(default)
    assert "aten::div.Tensor" in torch.neuron.fallbacks()


def test_views_and_storage_are_never_fallbacks():
    a = neuron(4, 6, dtype=F64)
    torch.neuron.reset_fallbacks()
    b = a.view(6, 4).t()[1:].unsqueeze(0).expand(2, -1, -1)
    b.as_strided((2, 2), (1, 1)).detach().untyped_storage()
    a.resize_(2, 2).set_()
    assert torch.neuron.fallbacks() == {}


def test_a_fallback_occupies_the_timeline_as_one():
    a = neuron(64)
    with torch.neuron.timeline() as scope:
        reverse(a)
    (record,) = scope.snapshot.records
    assert (record.cost_class, record.bound, record.queue) == ("cpu_fallback", "host", "compute")
    (fallback,) = scope.snapshot.fallbacks.values()
    assert "test_fallbacks.py" in fallback.lines[0]
    assert "no lowering" in fallback.reason


def test_the_timeline_since_the_start_knows_fallbacks():
    torch.neuron.timeline().reset()
    reverse(neuron(8))
    (fallback,) = torch.neuron.timeline().snapshot.fallbacks.values()
    assert fallback.calls == 1
    assert fallback.ps > 0


def test_the_report_lists_them_with_the_reason(tmp_path):
    a = neuron(64)
    with torch.neuron.timeline() as scope:
        reverse(a)
    page = torch.neuron.report(tmp_path / "report.html", scope).read_text()
    assert "it has no lowering" in page


def test_a_warning_comes_once_with_line_and_cost():
    a = neuron(8)
    torch.neuron.set_fallback("warn")
    with pytest.warns(FallbackWarning) as caught:
        reverse(a)
        reverse(a)
    (warning,) = caught
    assert warning.filename == __file__
    text = str(warning.message)
    assert "no program on trn2: it has no lowering" in text
    assert "moves 64 B" in text
    assert "us of the device's time" in text
    assert "(test_a_warning_comes_once_with_line_and_cost)" in text


def test_what_ran_silently_warns_when_it_may():
    a = neuron(8)
    reverse(a)
    torch.neuron.set_fallback("warn")
    with pytest.warns(FallbackWarning):
        reverse(a)


def test_a_warning_may_use_the_device(monkeypatch):
    seen = []

    def show(message, *where):
        seen.append(torch.ones(3, device="neuron").sum().item())
        seen.append(torch.ones(3).data_ptr())

    torch.neuron.set_fallback("warn")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        reverse(neuron(8))
    assert seen[0] == 3


def test_a_policy_may_be_of_some_operators():
    a = neuron(8)
    torch.neuron.set_fallback("error", ops=["fallback_test::reverse"])
    with pytest.raises(torch.neuron.FallbackError):
        reverse(a)
    torch.exp(neuron(2, dtype=F64))
    torch.neuron.set_fallback("allow", ops="fallback_test::reverse")
    reverse(a)
    torch.neuron.set_fallback("allow")
    reverse(a)


def test_the_context_restores_what_was():
    a = neuron(8)
    torch.neuron.set_fallback("error", ops=["fallback_test::reverse"])
    with torch.neuron.fallback_is("allow"):
        reverse(a)
    with pytest.raises(torch.neuron.FallbackError):
        reverse(a)
    torch.exp(neuron(2, dtype=F64))


def test_bad_words_say_what_is_allowed():
    with pytest.raises(ValueError, match=r"policy='ignore'.*'allow', 'warn', 'error'"):
        torch.neuron.set_fallback("ignore")
    with pytest.raises(ValueError, match=r"ops='aten::sorted'.*aten::sort"):
        torch.neuron.set_fallback("warn", ops=["aten::sorted"])
    with pytest.raises(ValueError, match=r"ops='aten::sort.nothing'"):
        torch.neuron.set_fallback("warn", ops=["aten::sort.nothing"])


def test_threads_count_every_call():
    a = neuron(16)

    def work():
        for _ in range(50):
            reverse(a)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(torch.neuron.fallback_calls().values()) == 200


def test_sparse_tensors_fall_back():
    a = torch.eye(4).to_sparse().to("neuron")
    torch.neuron.reset_fallbacks()
    a + a
    assert "sparse" in torch.neuron.fallbacks()["aten::add.Tensor"].reason


def test_a_custom_operator_without_a_kernel_of_its_own_falls_back():
    with torch.library._scoped_library("fallback_test", "FRAGMENT") as library:
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: x * 2, "CPU")
        torch.ops.fallback_test.double(neuron(2))
    assert torch.neuron.fallback_calls() == {"fallback_test::double": 1}


def test_a_custom_operator_with_a_kernel_is_what_its_kernel_calls():
    with torch.library._scoped_library("fallback_test", "FRAGMENT") as library:
        library.define("triple(Tensor x) -> Tensor")
        library.impl("triple", lambda x: x * 3, "PrivateUse1")
        torch.ops.fallback_test.triple(neuron(2))
    assert torch.neuron.fallback_calls() == {}


def test_what_has_no_lowering_falls_back_even_where_expressible_is_native(mode):
    a = neuron(4)
    with native_means_expressible():
        reverse(a)
        torch.exp(neuron(2, dtype=F64))
        assert torch.neuron.fallbacks() == {}
        torch.neg(neuron(2, dtype=torch.complex32))
    if mode == "compiled":
        assert "complex32" in torch.neuron.fallbacks()["aten::neg"].reason


def calls_of_every_kind():
    a, b = neuron(4, 4), torch.arange(8, device="neuron")
    reverse(a)
    torch.cumsum(a, 0)
    torch.linalg.inv(a + 4 * torch.eye(4, device="neuron"))
    (b @ b).item()
    b.double().mul_(2).float()
    torch.fft.fft(a)
    torch.nn.functional.conv2d(neuron(1, 2, 8, 8), neuron(2, 2, 3, 3))
    torch.nn.functional.dropout(a)
    torch.randperm(5, device="neuron")
    torch._foreach_add_([a, a.double()], 1.0)
    torch.stack([a, a]).unique()
    b.index_add(0, b, b)
    a.bfloat16().softmax(-1)


def test_both_modes_classify_alike():
    found = {}
    for each in ("host", "compiled"):
        with eager.eager_mode_is(each):
            torch.neuron.reset_fallbacks()
            calls_of_every_kind()
            found[each] = {n: (t.calls, t.reason) for n, t in torch.neuron.fallbacks().items()}
    assert found["host"] == found["compiled"]


def test_the_variable_sets_the_policy():
    code = """
import torch
try:
    torch.zeros(4, device="neuron", dtype=torch.float64)
except torch.neuron.FallbackError as error:
    print("refused")
"""
    assert output_of(code, environ={"TORCH_TRAINIUM_FALLBACK": "error"}) == "refused"
    assert output_of(code, environ={"TORCH_TRAINIUM_FALLBACK": "allow"}) == ""


def test_a_bad_variable_is_an_error_of_the_device():
    code = """
import torch
try:
    torch.ones(4, device="neuron")
except RuntimeError as error:
    print(error)
"""
    text = output_of(code, environ={"TORCH_TRAINIUM_FALLBACK": "never"})
    assert "use one of allow, warn, error" in text


def test_the_chip_decides():
    code = """
import torch
torch.neuron.set_fallback("allow")
torch.ones(4).to(torch.float8_e4m3fn).to("neuron")
print("aten::empty_strided" in torch.neuron.fallbacks())
"""
    assert output_of(code, environ={"TORCH_TRAINIUM_INSTANCE": "trn2.3xlarge"}) == "True"
    assert output_of(code, environ={"TORCH_TRAINIUM_INSTANCE": "trn3-gen2-ultraserver"}) == "False"
