"""The policy "error" refuses a fallback on every path, before anything is written."""

import pytest
import torch

from torch_trainium import eager
from torch_trainium.errors import FallbackError, LoweringError
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

F32, F64 = torch.float32, torch.float64


@pytest.fixture(autouse=True, params=["host", "compiled"])
def mode(request):
    with eager.eager_mode_is(request.param), torch.neuron.fallback_is("allow"):
        yield request.param


@pytest.fixture
def doubles() -> torch.Tensor:
    """Made while it was allowed."""
    return torch.arange(1.0, 5.0, dtype=F64).to("neuron")


LIBRARY = torch.library.Library("fallback_error_test", "FRAGMENT")
LIBRARY.define("reverse(Tensor x) -> Tensor")
LIBRARY.impl("reverse", lambda x: x.flip(0), "CPU")
reverse = torch.ops.fallback_error_test.reverse


def floats() -> torch.Tensor:
    return torch.arange(1.0, 5.0).to("neuron")


def refused(call) -> None:
    with torch.neuron.fallback_is("error"), pytest.raises(FallbackError, match="has no program"):
        call()


UNBOXED = {
    "exp": lambda a: torch.exp(a),
    "add": lambda a: a + a,
    "where": lambda a: torch.where(a > 2, a, a),
    "sum": lambda a: a.sum(0),
    "cat": lambda a: torch.cat([a, a]),
}
BOXED = {
    "tan": lambda a: torch.tan(a),
    "cumsum": lambda a: a.cumsum(0),
    "out": lambda a: torch.tan(a, out=torch.empty_like(a)),
    "foreach": lambda a: torch._foreach_add([a, a], 1.0),
    "complex": lambda a: torch.complex(a, a),
}
RANDOM = {
    "normal_": lambda a: a.normal_(),
    "uniform_": lambda a: a.uniform_(),
    "bernoulli_": lambda a: a.bernoulli_(0.5),
    "exponential_": lambda a: a.exponential_(),
    "random_": lambda a: a.random_(),
    "multinomial": lambda a: torch.multinomial(a, 2),
    "poisson": lambda a: torch.poisson(a),
    "dropout": lambda a: torch.nn.functional.dropout(a),
    "rrelu": lambda a: torch.nn.functional.rrelu(a, training=True),
}
IN_PLACE = {
    "add_": lambda a: a.add_(1),
    "mul_": lambda a: a.mul_(a),
    "tan_": lambda a: a.tan_(),
    "zero_": lambda a: a.zero_(),
    "fill_": lambda a: a.fill_(7),
    "clamp_": lambda a: a.clamp_(2, 3),
    "foreach": lambda a: torch._foreach_mul_([a], 2.0),
    "copy_": lambda a: a.copy_(floats()),
    "copy_ from the host": lambda a: a.copy_(torch.zeros(4, dtype=F64)),
    "index_put_": lambda a: a.__setitem__(0, 9.0),
    **{name: call for name, call in RANDOM.items() if name.endswith("_")},
}
FACTORIES = {
    "empty": lambda: torch.empty(3, dtype=F64, device="neuron"),
    "empty_strided": lambda: torch.empty_strided((2,), (1,), dtype=F64, device="neuron"),
    "zeros": lambda: torch.zeros(3, dtype=F64, device="neuron"),
    "ones": lambda: torch.ones(3, dtype=F64, device="neuron"),
    "full": lambda: torch.full((3,), 2.0, dtype=F64, device="neuron"),
    "arange": lambda: torch.arange(3, dtype=F64, device="neuron"),
    "linspace": lambda: torch.linspace(0, 1, 3, dtype=F64, device="neuron"),
    "eye": lambda: torch.eye(3, dtype=F64, device="neuron"),
    "tensor": lambda: torch.tensor([1.0], dtype=F64, device="neuron"),
    "scalar_tensor": lambda: torch.scalar_tensor(1.0, dtype=F64, device="neuron"),
    "new_zeros": lambda: floats().new_zeros(3, dtype=F64),
    "new_empty": lambda: floats().new_empty(3, dtype=F64),
    "new_tensor": lambda: floats().new_tensor([1.0], dtype=F64),
    "zeros_like": lambda: torch.zeros_like(floats(), dtype=F64),
    "randn": lambda: torch.randn(3, dtype=F64, device="neuron"),
    "rand": lambda: torch.rand(3, dtype=F64, device="neuron"),
    "normal": lambda: torch.normal(0.0, 1.0, (3,), dtype=F64, device="neuron"),
    "randint": lambda: torch.randint(3, (3,), dtype=F64, device="neuron"),
    "complex zeros": lambda: torch.zeros(3, dtype=torch.complex64, device="neuron"),
    "fp8 zeros": lambda: torch.zeros(3, dtype=torch.float8_e4m3fn, device="neuron"),
}
CASTS = {
    "to device": lambda: torch.zeros(3, dtype=F64).to("neuron"),
    "to dtype": lambda: floats().to(F64),
    "double": lambda: floats().double(),
    "type": lambda: floats().type(F64),
    "copy_": lambda: torch.empty(4, device="neuron").copy_(torch.zeros(4)).cfloat(),
    "promotion": lambda: floats() + floats().double(),
    "sum dtype": lambda: floats().sum(dtype=F64),
    "softmax dtype": lambda: floats().softmax(0, dtype=F64),
}


@pytest.mark.parametrize("call", [*UNBOXED.values(), *BOXED.values()], ids=[*UNBOXED, *BOXED])
def test_kernels(call, doubles):
    refused(lambda: call(doubles))


@pytest.mark.parametrize("call", IN_PLACE.values(), ids=IN_PLACE)
def test_nothing_is_half_written(call, doubles):
    before = doubles.cpu()
    version = doubles._version
    refused(lambda: call(doubles))
    assert torch.equal(doubles.cpu(), before)
    assert doubles._version - version <= 1  # autograd counts a write before it is done


@pytest.mark.parametrize("call", RANDOM.values(), ids=RANDOM)
def test_random_numbers_after_a_refusal_are_what_they_were(call, doubles):
    state = torch.neuron.get_rng_state()
    refused(lambda: call(doubles))
    assert torch.equal(torch.neuron.get_rng_state(), state)


@pytest.mark.parametrize("call", FACTORIES.values(), ids=FACTORIES)
def test_factories(call):
    refused(call)


@pytest.mark.parametrize("call", CASTS.values(), ids=CASTS)
def test_copies_and_casts(call):
    refused(call)


def test_a_cast_from_a_missing_dtype(doubles):
    target = floats()
    refused(lambda: target.copy_(doubles))
    assert torch.equal(target.cpu(), floats().cpu())


def test_item(doubles):
    refused(lambda: doubles[0].item())
    refused(lambda: bool(doubles[0] > 0))


def test_fused_optimizers(doubles):
    doubles.requires_grad_()
    doubles.grad = torch.ones_like(doubles)
    optimizer = torch.optim.AdamW([doubles], lr=0.1, fused=True)
    optimizer.zero_grad(set_to_none=False)
    refused(optimizer.step)


def test_an_operator_that_the_chip_refuses():
    refused(lambda: reverse(floats()))


def test_results_given_by_the_user_are_left_alone(doubles):
    out = doubles.clone()
    refused(lambda: torch.tan(doubles, out=out))
    assert torch.equal(out.cpu(), doubles.cpu())


class SortsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 1

    @staticmethod
    def backward(ctx, grad):
        return reverse(grad)


@pytest.mark.parametrize("multithreading", [False, True])
def test_backward(multithreading):
    a = floats().requires_grad_()
    loss = SortsInBackward.apply(a).sum()
    with torch.autograd.set_multithreading_enabled(multithreading):
        refused(loss.backward)
    assert a.grad is None


@pytest.mark.parametrize("multithreading", [False, True])
def test_backward_kernels_of_a_missing_dtype(multithreading, doubles):
    doubles.requires_grad_()
    loss = torch.tanh(doubles).sum()
    with torch.autograd.set_multithreading_enabled(multithreading):
        refused(loss.backward)


def test_a_call_without_a_program_in_compiled_mode(mode):
    if mode == "host":
        pytest.skip("the host engine needs no program")
    a = floats().to(torch.complex32)
    with (
        native_means_expressible(),
        torch.neuron.fallback_is("error"),
        pytest.raises(LoweringError, match=r"aten::neg has no program.*complex32") as caught,
    ):
        torch.neg(a)
    assert isinstance(caught.value, FallbackError)


def test_the_error_names_the_line_and_the_remedy():
    with torch.neuron.fallback_is("error"), pytest.raises(FallbackError) as caught:
        reverse(floats())
    text = str(caught.value)
    assert "it has no lowering that a check has proven" in text
    assert 'set_fallback("warn")' in text
    assert "test_fallback_errors.py:" in text


def test_a_use_is_refused_before_it_writes():
    a = torch.arange(4).to("neuron")
    places = a.clone()
    refused(lambda: a.put_(places, places, accumulate=True))
    assert a.tolist() == [0, 1, 2, 3]
    with torch.neuron.fallback_is("error"):
        a.put_(places, places + 1)
    assert a.tolist() == [1, 2, 3, 4]


def test_what_is_native_runs():
    with torch.neuron.fallback_is("error"):
        a = torch.randn(4, 4).to("neuron").requires_grad_()
        (torch.relu(a @ a) + torch.ones(4, device="neuron")).sum().backward()
        assert a.grad.cpu().shape == (4, 4)


def test_the_device_works_after_an_error():
    refused(lambda: reverse(floats()))
    assert (floats() + 1).sum().item() == 14
