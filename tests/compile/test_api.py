"""Every parameter of `torch.compile` and every function of `torch.compiler`, on the device."""

import inspect
import re
from pathlib import Path

import pytest
import torch

from tests.python_process import output_of

DOCUMENT = (Path(__file__).parents[2] / "docs" / "compile.md").read_text()


def ones(n=2):
    return torch.ones(n, device="neuron")


def documented(section):
    text = DOCUMENT.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return {
        name
        for row in re.findall(r"^\| (`.+?) \|", text, re.M)
        for name in re.findall(r"`(\w+)`", row)
    }


def test_every_parameter_is_documented():
    parameters = set(inspect.signature(torch.compile).parameters) - {"model"}
    assert parameters <= documented("Parameters of `torch.compile`")


def test_every_function_is_documented():
    functions = {n for n in torch.compiler.__all__ if callable(getattr(torch.compiler, n))}
    assert functions - {"compile"} <= documented("`torch.compiler`")


def test_disable_leaves_the_function_alone(graphs):
    assert torch.compile(lambda x: x + 1, disable=True)(ones()).tolist() == [2.0, 2.0]
    assert not graphs


def test_a_recompile_limit_ends_in_eager_mode(graphs):
    function = torch.compile(lambda x, n: x + n, recompile_limit=1, dynamic=False)
    for n in (1, 2, 3):
        assert function(ones(), n)[0].item() == 1 + n
    assert len(graphs) == 1


def test_recompiles_may_be_isolated(graphs):
    def function(x):
        return x + 1

    for _ in range(2):
        torch.compile(function, isolate_recompiles=True)(ones())
    assert len(graphs) == 2


def test_a_name_is_taken():
    assert torch.compile(lambda x: x + 1, name="increment")(ones())[0].item() == 2


def test_fullgraph_makes_a_break_an_error():
    def function(x):
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(function, fullgraph=True)(ones())


STANCES = {
    "default": [1, 2],
    "force_eager": [0, 0],
    "eager_on_recompile": [0, 0],
    "aot_eager_then_compile": [0, 1],
}


@pytest.mark.parametrize("stance", STANCES)
def test_a_stance_decides_what_is_compiled(stance, graphs):
    function = torch.compile(lambda x: x * 2, dynamic=False)
    with torch.compiler.set_stance(stance):
        for n, compiled in zip((2, 3), STANCES[stance], strict=True):
            assert function(ones(n)).tolist() == [2.0] * n
            assert len(graphs) == compiled


def test_a_stance_may_make_a_recompilation_an_error(graphs):
    function = torch.compile(lambda x: x * 2, dynamic=False)
    function(ones())
    with (
        torch.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match="fail_on_recompile"),
    ):
        function(ones(3))
    assert len(graphs) == 1


def test_another_default_backend_may_be_set_and_taken_back(graphs):
    before = torch.compiler.get_default_backend()
    torch.compiler.set_default_backend("eager")
    try:
        assert torch.compile(lambda x: x + 1)(ones())[0].item() == 2
        assert not graphs
    finally:
        torch.compiler.set_default_backend(before)
    torch._dynamo.reset()
    torch.compile(lambda x: x + 1)(ones())
    assert len(graphs) == 1


def test_an_allowed_function_is_not_traced(graphs):
    @torch.compiler.allow_in_graph
    def twice(x):
        return x * 2

    assert torch.compile(lambda x: twice(x) + 1, fullgraph=True)(ones()).tolist() == [3.0, 3.0]
    assert len(graphs) == 1


def test_a_constant_result_is_kept(graphs):
    numbers = iter((3, 4))

    @torch.compiler.assume_constant_result
    def scale():
        return next(numbers)

    function = torch.compile(lambda x: x * scale(), fullgraph=True)
    assert [function(ones())[0].item() for _ in range(2)] == [3, 3]


def test_functions_know_that_they_are_compiled():
    def function(x):
        return x + (1 if torch.compiler.is_compiling() else 5)

    assert function(ones())[0].item() == 6
    assert torch.compile(function)(ones())[0].item() == 2


def test_a_numpy_function_runs_on_the_device(graphs):
    import numpy

    function = torch.compile(torch.compiler.wrap_numpy(lambda x: numpy.sin(x) + 1), fullgraph=True)
    torch.testing.assert_close(function(ones()).cpu(), torch.ones(2).sin() + 1)
    assert len(graphs) == 1


def test_marking_a_step_changes_nothing():
    function = torch.compile(lambda x: x + 1, backend="neuron", mode="reduce-overhead")
    first = function(ones())
    torch.compiler.cudagraph_mark_step_begin()
    function(ones(2) * 5)
    assert first.tolist() == [2.0, 2.0]


SAVE = """
import sys, torch
from pathlib import Path
from torch_trainium.engines.programs import program_cache
function = torch.compile(lambda x, y: (x @ y).sin().sum(), fullgraph=True)
if sys.argv[1] == "load":
    info = torch.compiler.load_cache_artifacts(Path(sys.argv[2]).read_bytes())
    assert info.neuron_program_artifacts
x = torch.ones(4, 4, device="neuron", requires_grad=True)
function(x, x).backward()
if sys.argv[1] == "save":
    artifacts, info = torch.compiler.save_cache_artifacts()
    Path(sys.argv[2]).write_bytes(artifacts)
print(program_cache().statistics.compiles)
"""


def test_saved_artifacts_spare_another_machine_the_compilation(tmp_path):
    def compiles(action):
        code = f"import sys; sys.argv = ['', {action!r}, {str(tmp_path / 'artifacts')!r}]\n{SAVE}"
        cache = str(tmp_path / f"cache of {action}")
        return int(output_of(code, environ={"TORCH_TRAINIUM_CACHE": cache}).splitlines()[-1])

    assert compiles("save") == 2
    assert compiles("load") == 0
