"""torch.neuron offers what torch.cuda does, name by name."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.neuron.cuda_names import NOT_APPLICABLE, PROVIDED

NOT_OFFERED = [name for names in NOT_APPLICABLE.values() for name in names.split()]


def test_every_public_name_of_torch_cuda_has_one_row() -> None:
    public = {name for name in dir(torch.cuda) if not name.startswith("_")}
    # Submodules appear once something imports them; only the documented ones count.
    public = {
        name
        for name in public
        if name in torch.cuda.__all__
        or not inspect.ismodule(getattr(torch.cuda, name))
        or name in NOT_OFFERED
    }
    rows = PROVIDED + NOT_OFFERED
    assert sorted(rows) == sorted(set(rows))
    assert set(rows) == public


@pytest.mark.parametrize("name", PROVIDED)
def test_provided_name_exists_and_is_documented(name: str) -> None:
    value = getattr(torch.neuron, name)
    assert name in torch.neuron.__all__
    if inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value):
        assert value.__doc__


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_name_without_meaning_here_is_absent(name: str) -> None:
    assert name not in torch.neuron.__all__


@pytest.mark.parametrize("name", torch.neuron.__all__)
def test_every_function_of_torch_neuron_is_documented_and_typed(name: str) -> None:
    value = getattr(torch.neuron, name)
    if inspect.isroutine(value):
        assert value.__doc__
        assert "return" in value.__annotations__


def test_signatures_take_what_those_of_torch_cuda_take() -> None:
    different = {}
    for name in PROVIDED:
        theirs, ours = getattr(torch.cuda, name), getattr(torch.neuron, name)
        if inspect.isfunction(theirs) and inspect.isfunction(ours):
            names = list(inspect.signature(theirs).parameters)
            if list(inspect.signature(ours).parameters)[: len(names)] != names:
                different[name] = (names, list(inspect.signature(ours).parameters))
    assert different == {}


def test_documentation_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "neuron_api.py"
    done = subprocess.run(
        [sys.executable, str(page), "--check"],
        env={**os.environ, "PYTHONPATH": str(page.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
