"""How Dynamo finds the device: late, by itself, and with clear errors."""

import pytest
import torch

from tests.python_process import output_of
from torch_trainium.compile import options, registration


def test_importing_torch_does_not_import_dynamo():
    code = """
import sys, torch, torch_trainium
assert "torch._dynamo" not in sys.modules
assert "torch_trainium.compile.backend" not in sys.modules
"""
    output_of(code)


def test_the_device_is_found_where_dynamo_was_imported_first():
    code = """
import torch, torch._dynamo
import torch_trainium
assert torch._dynamo.lookup_backend("neuron")
assert torch.compile(lambda x: x + 1)(torch.ones(2, device="neuron")).tolist() == [2.0, 2.0]
"""
    output_of(code, environ={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})


def test_the_backend_is_listed():
    assert registration.BACKEND in torch._dynamo.list_backends()


def test_neuron_tensors_choose_the_backend(graphs):
    torch.compile(lambda x: x + 1)(torch.ones(2, device="neuron"))
    torch.compile(lambda: torch.zeros(2, device="neuron") + 1)()
    assert len(graphs) == 2


def test_cpu_tensors_choose_inductor(graphs, monkeypatch):
    asked = []
    inductor = torch._TorchCompileInductorWrapper
    monkeypatch.setattr(inductor, "__call__", lambda self, graph, _: asked.append(1) or graph)
    assert torch.compile(lambda x: x + 1)(torch.ones(2)).tolist() == [2.0, 2.0]
    assert asked
    assert not graphs


def test_inductor_refuses_neuron_tensors_in_words():
    function = torch.compile(lambda x: x + 1, backend="inductor")
    with pytest.raises(Exception, match=r"use torch\.compile\(backend='neuron'\)"):
        function(torch.ones(2, device="neuron"))


def test_the_device_interface_answers():
    interface = torch._dynamo.device_interface.get_interface_for_device("neuron:0")
    assert interface.device_count() == torch.neuron.device_count()
    assert interface.current_device() == torch.neuron.current_device()
    assert interface.is_bf16_supported()
    assert issubclass(interface.Stream, torch.Stream)
    assert interface.get_raw_stream(0) == torch.neuron.current_stream(0).stream_id


@pytest.mark.parametrize("mode", options.MODES)
def test_a_documented_mode_is_accepted(mode):
    function = torch.compile(lambda x: x + 1, backend="neuron", mode=mode)
    assert function(torch.ones(1, device="neuron")).item() == 2


@pytest.mark.parametrize("mode", [*options.REFUSED_MODES, "fast"])
def test_another_mode_is_refused_with_those_there_are(mode):
    with pytest.raises(ValueError, match=f"no mode '{mode}'.*'default', 'reduce-overhead'"):
        options.read(mode, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fallbacks": "eager"}, "no option 'fallbacks'; there are 'fallback', 'cpu_inputs'"),
        ({"fallback": "cpu"}, "'fallback' is one of 'operator', 'eager', 'error', not 'cpu'"),
        ({"cpu_inputs": True}, "'cpu_inputs' is one of 'warn', 'allow', 'error', not True"),
        ({"max_programs": 0}, "'max_programs' is an integer from 1 on, not 0"),
        ({"buckets": [0, 8]}, r"'buckets' is a list of integers from 1 on, not \[0, 8\]"),
        ({"passes": ["fusion"]}, r"'passes' is a list of some of 'casts'.*, not \['fusion'\]"),
        ({"debug_folder": 1}, "'debug_folder' is a path, not 1"),
    ],
)
def test_a_wrong_option_is_refused_with_what_it_may_be(given, message):
    with pytest.raises(ValueError, match=message):
        options.read(None, given)


def test_reset_forgets_what_was_compiled(graphs):
    function = torch.compile(lambda x: x + 1)
    for _ in range(2):
        function(torch.ones(2, device="neuron"))
        torch._dynamo.reset()
    assert len(graphs) == 2


def test_a_disabled_function_is_not_compiled(graphs):
    function = torch.compiler.disable(lambda x: x + 1)
    torch.compile(lambda x: function(x))(torch.ones(2, device="neuron"))
    assert not graphs


def test_a_stance_may_force_eager_mode(graphs):
    function = torch.compile(lambda x: x + 1)
    with torch.compiler.set_stance("force_eager"):
        function(torch.ones(2, device="neuron"))
    assert not graphs
