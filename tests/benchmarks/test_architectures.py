"""Each architecture, tiny: one training step on the device, as on the CPU, in every mode."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers")

from benchmarks.architectures import ARCHITECTURES, Workload, build
from torch_trainium import eager
from torch_trainium.compile import backend
from torch_trainium.compile.graph import CompiledGraph

pytestmark = pytest.mark.architectures
PACKAGES = {"unet": "diffusers", "graph_sage": "torch_geometric"}


@dataclass(frozen=True)
class Trained:
    """What one training step computed, on the CPU."""

    loss: Tensor
    gradients: dict[str, Tensor]
    buffers: dict[str, Tensor]


def trained(workload: Workload, **compile_options: object) -> Trained:
    loss = workload.training(**compile_options)()
    parameters = workload.model.named_parameters()
    return Trained(
        loss.cpu(),
        {name: p.grad.cpu() for name, p in parameters if p.grad is not None},
        {name: buffer.cpu() for name, buffer in workload.model.named_buffers()},
    )


@pytest.fixture(scope="module", params=ARCHITECTURES)
def name(request: pytest.FixtureRequest) -> str:
    if package := PACKAGES.get(request.param):
        pytest.importorskip(package)
    return request.param


@pytest.fixture(scope="module")
def expected(name: str) -> Trained:
    return trained(build(name, "tiny"))


@pytest.fixture
def on_device(name: str) -> Workload:
    return build(name, "tiny").to("neuron")


@pytest.fixture
def graphs() -> Iterator[list[CompiledGraph]]:
    torch._dynamo.reset()
    made: list[CompiledGraph] = []
    backend.observers.append(made.append)
    yield made
    backend.observers.remove(made.append)
    torch._dynamo.reset()


def assert_same(actual: Trained, expected: Trained) -> None:
    # Not the parameters: AdamW's first step divides a gradient by its magnitude, and so makes the
    # rounding of one that is nearly zero as large as any.
    torch.testing.assert_close(actual.loss, expected.loss)
    torch.testing.assert_close(actual.gradients, expected.gradients)
    torch.testing.assert_close(actual.buffers, expected.buffers)


@pytest.mark.parametrize("mode", ["host", "compiled"])
def test_eager_training_is_the_cpus(on_device: Workload, expected: Trained, mode: str) -> None:
    with eager.eager_mode_is(mode), torch.neuron.fallback_is("error"):
        actual = trained(on_device)
    assert_same(actual, expected)


def test_a_step_is_one_forward_and_one_backward_program(
    on_device: Workload, expected: Trained, graphs: list[CompiledGraph]
) -> None:
    with torch._dynamo.config.patch(allow_rnn=True):
        actual = trained(on_device, fullgraph=True, options={"fallback": "error"})
    assert_same(actual, expected)
    assert [graph.kind for graph in graphs] == ["forward", "backward"]
    assert [len(graph.pieces) for graph in graphs] == [1, 1]
