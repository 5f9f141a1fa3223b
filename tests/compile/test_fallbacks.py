"""CPU fallbacks inside of compiled graphs: those of eager mode, told, counted, charged, refused."""

import inspect

import pytest
import torch
from torch.nn.functional import batch_norm

from tests.python_process import output_of
from torch_trainium.compile.eager_piece import EagerPiece
from torch_trainium.compile.program_piece import ProgramPiece
from torch_trainium.errors import FallbackError, FallbackWarning, GraphCompileError
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

LIBRARY = torch.library.Library("torch_trainium_graph_fallbacks", "FRAGMENT")
LIBRARY.define("reverse(Tensor x) -> Tensor")
LIBRARY.impl("reverse", lambda x: x.flip(0), "CPU")
torch.library.register_fake("torch_trainium_graph_fallbacks::reverse", torch.empty_like)
reverse = torch.ops.torch_trainium_graph_fallbacks.reverse
REVERSE = "torch_trainium_graph_fallbacks::reverse"


@pytest.fixture(autouse=True)
def new_counts():
    torch.neuron.reset_fallbacks()
    yield
    torch.neuron.reset_fallbacks()


def around(x: torch.Tensor) -> torch.Tensor:
    return reverse(x + 1) * 2


LINE = f"{__file__}:{inspect.getsourcelines(around)[1] + 1}"


def ones() -> torch.Tensor:
    return torch.ones(1000, device="neuron")


def test_a_fallback_runs_between_two_programs(graphs):
    x = torch.arange(3.0, device="neuron")
    with torch.neuron.fallback_is("allow"):
        assert torch.compile(around, fullgraph=True)(x).cpu().tolist() == [6.0, 4.0, 2.0]
    assert [type(piece) for piece in graphs[0].pieces] == [ProgramPiece, EagerPiece, ProgramPiece]
    (refusal,) = graphs[0].refusals
    assert refusal.is_cpu_fallback


def test_it_warns_once_with_the_line_in_the_graph_its_bytes_and_its_time():
    compiled = torch.compile(around, fullgraph=True)
    with torch.neuron.fallback_is("warn"), pytest.warns(FallbackWarning) as caught:
        compiled(ones())
        compiled(ones())
    (warning,) = (w for w in caught if w.category is FallbackWarning)
    text = str(warning.message)
    for part in (REVERSE, f"{LINE} (around)", "moves 8.0 kB", "us of the device's time"):
        assert part in text
    assert f"{warning.filename}:{warning.lineno}" == LINE


def test_each_run_is_counted_with_its_bytes_and_its_time():
    compiled = torch.compile(around, fullgraph=True)
    with torch.neuron.fallback_is("allow"):
        for _ in range(3):
            compiled(ones())
    total = torch.neuron.fallbacks()[REVERSE]
    assert (total.calls, total.bytes_moved) == (3, 3 * 2 * 4000)
    assert total.device_us > 0
    assert total.reason == "it has no lowering that a check has proven"


def test_it_is_charged_as_in_eager_mode():
    compiled, x = torch.compile(around, fullgraph=True), ones()
    with torch.neuron.fallback_is("allow"):
        compiled(x)
        torch.neuron.reset_fallbacks()
        with torch.neuron.timeline() as scope:
            compiled(x)
        in_graph = torch.neuron.fallbacks()[REVERSE]
        torch.neuron.reset_fallbacks()
        around(x)
    assert torch.neuron.fallbacks()[REVERSE] == in_graph
    (record,) = (r for r in scope.snapshot.records if r.cost_class == "cpu_fallback")
    assert (record.bound, record.queue) == ("host", "compute")
    (fallback,) = scope.snapshot.fallbacks.values()
    assert fallback.ps / 1e6 == in_graph.device_us
    assert LINE in fallback.lines[0]


def test_the_policy_error_names_operator_dtype_line_and_graph(tmp_path):
    compiled = torch.compile(around, options={"debug_folder": str(tmp_path)}, backend="neuron")
    with torch.neuron.fallback_is("error"), pytest.raises(FallbackError) as caught:
        compiled(ones())
    assert isinstance(caught.value, GraphCompileError)
    (path,) = tmp_path.iterdir()
    for part in (f"{REVERSE} on float32", LINE, 'set_fallback("warn")', str(path)):
        assert part in str(caught.value)


def test_a_refused_graph_runs_once_it_is_allowed():
    compiled, x = torch.compile(around, fullgraph=True), ones()
    for _ in range(2):
        with torch.neuron.fallback_is("error"), pytest.raises(FallbackError):
            compiled(x)
    with torch.neuron.fallback_is("allow"):
        assert compiled(x)[0].item() == 4


def test_a_policy_that_comes_later_refuses_the_run():
    compiled, x = torch.compile(around, fullgraph=True), ones()
    with torch.neuron.fallback_is("allow"):
        compiled(x)
    with torch.neuron.fallback_is("error"), pytest.raises(FallbackError, match=LINE):
        compiled(x)


def test_the_policy_of_one_operator():
    compiled, x = torch.compile(around, fullgraph=True), ones()
    with (
        torch.neuron.fallback_is("error"),
        torch.neuron.fallback_is("allow", ops=[REVERSE]),
    ):
        assert compiled(x)[0].item() == 4


def test_a_fallback_in_the_backward_graph_has_the_line_of_its_forward_operator():
    x = torch.ones(4, device="neuron", requires_grad=True)

    def function(x):
        return Reversed.apply(x * 2).sum()

    with torch.neuron.fallback_is("allow"):
        loss = torch.compile(function, fullgraph=True)(x)
    with (
        torch.neuron.fallback_is("error"),
        pytest.raises(FallbackError, match=r"reverse on float32 at .*test_fallbacks\.py:\d+"),
    ):
        loss.backward()


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return reverse(gradient)


def test_what_a_lowering_does_not_take_is_a_fallback_with_its_words():
    def function(x):
        return torch.neg(x)

    x = torch.ones(2, dtype=torch.complex64).to(torch.complex32).to("neuron")
    compiled = torch.compile(function, fullgraph=True)
    with native_means_expressible(), torch.neuron.fallback_is("allow"):
        assert compiled(x)[0].item() == -1
        assert "complex32" in torch.neuron.fallbacks()["aten::neg"].reason
    torch._dynamo.reset()
    with (
        native_means_expressible(),
        torch.neuron.fallback_is("error"),
        pytest.raises(FallbackError, match="aten::neg on complex32"),
    ):
        torch.compile(function, fullgraph=True)(x)


F64 = torch.float64
CALLS = {
    "missing dtype": (lambda x: x.exp(), F64),
    "cast": (lambda x: x.double() + 1, torch.float32),
    "dtype argument": (lambda x: x.sum(dtype=F64), torch.float32),
    "factory": (lambda x: x + torch.zeros(4, dtype=F64, device=x.device), torch.float32),
    "complex": (lambda x: torch.complex(x, x).abs(), torch.float32),
    "foreach": (lambda x: torch._foreach_mul([x, x], 2.0), F64),
    "in place": (lambda x: x.add_(1), F64),
    "random": (lambda x: torch.rand_like(x), F64),
    "refused operation": (lambda x: torch.fft.rfft(x), torch.float32),
    "refused use": (
        lambda x: torch.ops.aten.index_put(x, [x.long() % 4], x, accumulate=True),
        torch.int32,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_eager_mode_refuses_a_graph_refuses(name):
    function, dtype = CALLS[name]
    with torch.neuron.fallback_is("allow"):
        x = torch.arange(1.0, 5.0).to("neuron").to(dtype)
    before = x.clone() if dtype is torch.float32 else None
    with torch.neuron.fallback_is("error"):
        with pytest.raises(FallbackError):
            function(x)
        with pytest.raises(FallbackError):
            torch.compile(function, fullgraph=True)(x)
    if before is not None:
        assert torch.equal(x.cpu(), before.cpu())


NATIVE = {
    "made of others": lambda x: torch.rand_like(x) + torch.ones_like(x) + x.new_zeros(4),
    "views": lambda x: x.view(2, 2).t().reshape(4),
    "casts": lambda x: x.to(torch.bfloat16).float(),
    "factories": lambda x: (
        x + torch.arange(4, device=x.device, dtype=x.dtype) + torch.full_like(x, 2)
    ),
    "several results": lambda x: torch.topk(x, 2),
    "batch norm": lambda x: batch_norm(x.view(2, 2), x[:2] + 1, x[2:] * 2),
    "batch norm in training": lambda x: batch_norm(x.view(2, 2), None, None, training=True),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(*[x.view(1, 2, 2)] * 3),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", NATIVE)
def test_what_eager_mode_has_native_a_graph_has(name, dtype, graphs):
    x = torch.arange(1.0, 5.0).to(dtype).to("neuron")
    with torch.neuron.fallback_is("error"):
        torch.neuron.manual_seed(0)
        expected = NATIVE[name](x)
        torch.neuron.manual_seed(0)
        torch.testing.assert_close(torch.compile(NATIVE[name], fullgraph=True)(x), expected)
    assert [type(piece) for piece in graphs[0].pieces] == [ProgramPiece]


@pytest.mark.parametrize(
    ("instance", "expected"), [("trn2.48xlarge", "1"), ("trn3-gen2-ultraserver", "0")]
)
def test_the_chip_decides(instance, expected):
    """float8_e4m3fn exists on trn3 alone."""
    code = """
import torch
from torch_trainium.compile import backend
graphs = []
backend.observers.append(graphs.append)
torch.neuron.set_fallback("allow")
x = torch.ones(4, device="neuron").to(torch.float8_e4m3fn)
torch.compile(lambda x: x.float() + 1, fullgraph=True)(x)
print(len(graphs[0].refusals))
"""
    assert output_of(code, environ={"TORCH_TRAINIUM_INSTANCE": instance}) == expected


def test_the_variable_refuses_graphs():
    code = """
import torch
torch.compile(lambda x: torch.fft.rfft(x) + 1)(torch.ones(4, device="neuron"))
"""
    with pytest.raises(AssertionError, match=r"aten::_fft_r2c on complex64, float32.*NCC_EVRF001"):
        output_of(code, environ={"TORCH_TRAINIUM_FALLBACK": "error"})
