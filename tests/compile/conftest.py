"""Each test compiles anew, and warnings of graphs that are not whole programs are errors."""

from collections.abc import Iterator

import pytest
import torch

from torch_trainium.compile import backend
from torch_trainium.compile.graph import CompiledGraph


@pytest.fixture(autouse=True)
def new_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def graphs() -> Iterator[list[CompiledGraph]]:
    """The graphs that the test compiles."""
    made: list[CompiledGraph] = []
    backend.observers.append(made.append)
    yield made
    backend.observers.remove(made.append)
