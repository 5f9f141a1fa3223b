"""What all rewrites have in common."""

import threading
from collections import Counter

import pytest
import torch

from tests.engines.rewritten import compiled, engine, operator, run
from tests.python_process import output_of
from torch_trainium.engines import mlir
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

aten = torch.ops.aten
PRODUCT = operator(aten.mm.default)


@pytest.fixture
def operands():
    return torch.randn(256, 192), torch.randn(192, 128)


@pytest.mark.parametrize(
    ("body", "shapes"),
    [
        (PRODUCT, [(500, 300), (300, 200)]),
        (
            operator(aten.convolution.default, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
            [(7, 32, 14, 14), (48, 32, 3, 3)],
        ),
        (
            operator(
                aten.convolution_backward.default,
                *(None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]),
            ),
            [(7, 48, 14, 14), (7, 32, 14, 14), (48, 32, 3, 3)],
        ),
        (operator(aten.cumsum.default, 1), [(50, 500)]),
        (operator(aten.sort.default, 1, False), [(50, 500)]),
    ],
    ids=["dot", "convolution", "kernel gradient", "cumsum", "sort"],
)
def test_the_same_program_gives_the_same_bits(body, shapes):
    inputs = [torch.randn(shape) for shape in shapes]
    program = compiled(body, inputs, with_rewrites=True)
    assert program.kernels()
    first = run(program, inputs)
    for _ in range(20):
        torch.testing.assert_close(run(program, inputs), first, rtol=0, atol=0)


def test_a_stored_program_calls_its_kernels(operands):
    program = compiled(PRODUCT, operands, with_rewrites=True)
    loaded = engine().load(program.serialize(), program.signature)
    assert loaded.kernels() == Counter(["dot"])
    torch.testing.assert_close(run(loaded, operands), run(program, operands), rtol=0, atol=0)


def test_threads_run_programs_at_once(operands):
    program = compiled(PRODUCT, operands, with_rewrites=True)
    expected = run(program, operands)
    failures: list[Exception] = []

    def repeat() -> None:
        try:
            for _ in range(50):
                torch.testing.assert_close(run(program, operands), expected, rtol=0, atol=0)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=repeat) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_threads_of_pytorch_stay_as_they_are(operands):
    program = compiled(PRODUCT, operands, with_rewrites=True)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        run(program, operands)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_modes_of_the_calling_thread_do_not_reach_kernels(operands):
    class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            assert "mm" not in function.name(), "a kernel was dispatched to Python"
            return function(*args, **(kwargs or {}))

    program = compiled(PRODUCT, operands, with_rewrites=True)
    expected = run(program, operands)
    with Recorder(), torch.autocast("cpu", torch.bfloat16), torch.profiler.profile() as profile:
        given = run(program, operands)
    torch.testing.assert_close(given, expected, rtol=0, atol=0)
    assert not [event.name for event in profile.events() if "mm" in event.name]


def test_what_a_kernel_refuses_is_the_error_of_the_program():
    """Its name and its reason, where a rewrite has described the operands wrongly."""

    def body(x: Builder, a: Value, b: Value) -> Value:
        window = "{offset = 0 : i64, sizes = array<i64: 4, 8>, strides = array<i64: 8, 1>}"
        (product,) = mlir.custom_call(
            "torch_trainium.kernel.dot",
            [a.ir, b.ir],
            [x.type_of(torch.float32, [4, 8])],
            {name: x.ir.Attribute.parse(window) for name in ("a", "b", "result")},
        )
        return x.value(product, torch.float32)

    inputs = (torch.randn(4, 8), torch.randn(4, 8))
    program = compiled(body, inputs, with_rewrites=True)
    with pytest.raises(RuntimeError, match=r"dot_general: .*4x8 and 4x8"):
        run(program, inputs)


SWITCHED = """
import torch
from torch_trainium import eager
from torch_trainium.eager import calls
a = torch.randn(256, 256, device="neuron")
with torch.no_grad():
    a @ a
(entry,) = calls.operator(torch.ops.aten.mm.default).entries.values()
print(sum(entry.program.kernels().values()))
"""


@pytest.mark.parametrize(("switch", "kernels"), [("0", "0"), ("1", "1"), ("", "1")])
def test_an_environment_variable_switches_them(switch, kernels, tmp_path):
    environ = {
        "TORCH_TRAINIUM_EAGER": "compiled",
        "TORCH_TRAINIUM_CACHE": str(tmp_path),
        "TORCH_TRAINIUM_ENGINE_REWRITES": switch,
    }
    assert output_of(SWITCHED, environ=environ) == kernels
