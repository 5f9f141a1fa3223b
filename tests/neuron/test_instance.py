"""Choosing the emulated machine from the program, which is possible once per process."""

import pytest
import torch

from tests.python_process import output_of, run_python
from torch_trainium import config
from torch_trainium.hardware import ConfigurationError

GIB = 1024**3
REPORT = """
p = torch.neuron.get_device_properties(0)
print(
    torch.neuron.device_count(), torch.neuron.get_device_name(), p.architecture, p.instance_type,
    p.ultraserver, p.multi_processor_count, torch.neuron.mem_get_info(0)[1] // 2**30,
)
"""


@pytest.mark.parametrize(
    ("call", "report"),
    [
        ("('trn2.48xlarge')", "64 trn2 NCv3 trn2.48xlarge None 2 24"),
        ("('trn3.3xlarge')", "4 trn3 NCv4 trn3.3xlarge None 2 36"),
        ("('trn3.3xlarge', logical_core_size=1)", "8 trn3 NCv4 trn3.3xlarge None 1 36"),
        ("('trn2.48xlarge', visible_cores='4-7,9')", "5 trn2 NCv3 trn2.48xlarge None 2 24"),
        ("('trn2-ultraserver')", "64 trn2 NCv3 trn2u.48xlarge trn2-ultraserver 2 24"),
        (
            "('trn3-gen2-ultraserver')",
            "16 trn3 NCv4 trn3-gen2-server trn3-gen2-ultraserver 2 36",
        ),
    ],
)
def test_count_memory_names_and_properties_follow(call: str, report: str) -> None:
    code = f"import torch; torch.neuron.set_instance{call}; torch.ones(1, device='neuron')"
    assert output_of(code + REPORT) == report


TIME_OF_A_PRODUCT = """
x = torch.ones(1024, 4096, device="neuron", dtype=torch.bfloat16)
with torch.neuron.timeline() as scope:
    x @ x.T
snapshot = scope.snapshot
print(snapshot.chip, snapshot.profile, scope.operators["aten::mm"].device_ps)
"""


def time_of_a_product(call: str = "", environ: dict[str, str] | None = None) -> list[str]:
    return output_of(f"import torch\n{call}{TIME_OF_A_PRODUCT}", environ=environ).split()


def test_virtual_times_follow_the_chosen_machine() -> None:
    small = "torch.neuron.set_instance('trn3.3xlarge', logical_core_size=1)"
    environ = {"TORCH_TRAINIUM_INSTANCE": "trn3.3xlarge", "NEURON_LOGICAL_NC_CONFIG": "1"}
    chosen = time_of_a_product(small)
    assert chosen == time_of_a_product(environ=environ)
    chip, _, small_ps = chosen
    assert chip == "trn3"
    *_, large_ps = time_of_a_product("torch.neuron.set_instance('trn3.3xlarge')")
    assert int(small_ps) > int(large_ps)


def test_virtual_times_name_the_profile_of_the_environment() -> None:
    assert time_of_a_product()[1] == "torchneuron-2.33"
    _, profile, _ = time_of_a_product(environ={"TORCH_TRAINIUM_PROFILE": "xla-2.9"})
    assert profile == "xla-2.9"


@pytest.mark.parametrize("name", ["trn2-ultraserver", "trn3-gen1-ultraserver"])
def test_the_variable_takes_ultraservers_too(name: str) -> None:
    code = "import torch; print(torch.neuron.get_device_properties().ultraserver)"
    assert output_of(code, environ={"TORCH_TRAINIUM_INSTANCE": name}) == name


def test_the_last_choice_before_first_use_counts() -> None:
    code = """
import torch
torch.neuron.set_instance("trn2.48xlarge", logical_core_size=1, visible_cores="0-7")
torch.manual_seed(1)
torch.neuron.set_instance("trn3.3xlarge")
generators = torch.neuron.default_generators
print(torch.neuron.device_count(), torch.accelerator.device_count(), len(generators))
"""
    # The first choice's core size and cores are not the environment's: they are forgotten.
    assert output_of(code) == "4 4 4"


def test_the_configuration_says_who_chose() -> None:
    code = """
import torch
torch.neuron.set_instance("trn2.48xlarge")
print(torch.neuron.config())
"""
    printed = output_of(code, environ={"NEURON_RT_NUM_CORES": "2"})
    assert "TORCH_TRAINIUM_INSTANCE = trn2.48xlarge (instance type, program)" in printed
    assert "NEURON_RT_NUM_CORES = 2 (count, environment)" in printed


def test_what_is_not_given_keeps_what_the_environment_says() -> None:
    code = """
import torch
torch.neuron.set_instance("trn2.48xlarge")
print(torch.neuron.device_count(), torch.neuron.get_device_properties().multi_processor_count)
"""
    environ = {"NEURON_RT_VISIBLE_CORES": "0-5", "NEURON_RT_VIRTUAL_CORE_SIZE": "1"}
    assert output_of(code, environ=environ) == "6 1"


def test_an_argument_wins_over_the_environment() -> None:
    code = """
import torch
torch.neuron.set_instance("trn2.48xlarge", logical_core_size=2, visible_cores="0,1")
print(torch.neuron.device_count(), torch.neuron.get_device_properties().multi_processor_count)
"""
    environ = {"NEURON_RT_VISIBLE_CORES": "0-5", "NEURON_RT_VIRTUAL_CORE_SIZE": "1"}
    assert output_of(code, environ=environ) == "2 2"


def test_a_choice_repairs_a_bad_environment() -> None:
    code = """
import torch
before = torch.neuron.is_available()
torch.neuron.set_instance("trn2.3xlarge")
print(before, torch.neuron.is_available(), torch.ones(2, device="neuron").sum().item())
"""
    environ = {"TORCH_TRAINIUM_INSTANCE": "trn9.large"}
    assert output_of(code, environ=environ) == "False True 2.0"


def test_other_errors_of_the_environment_stay() -> None:
    code = """
import torch
torch.neuron.set_instance("trn2.3xlarge")
try:
    torch.neuron.init()
except RuntimeError as error:
    print(error)
"""
    assert "TORCH_TRAINIUM_LOG" in output_of(code, environ={"TORCH_TRAINIUM_LOG": "loud"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "p5.48xlarge"}, r"name='p5.48xlarge'.*trn2\.3xlarge, .*trn3-gen2-ultraserver"),
        ({"name": ""}, r"name=''"),
        (
            {"name": "trn2.3xlarge", "logical_core_size": 3},
            "logical_core_size='3' is not valid: a logical core of Trainium2 has 1 or 2",
        ),
        (
            {"name": "trn2.3xlarge", "visible_cores": "0-4"},
            "visible_cores='0-4'.* between 0 and 3",
        ),
        ({"name": "trn2.3xlarge", "visible_cores": ""}, "visible_cores=''"),
        (
            {"name": "trn2.48xlarge", "logical_core_size": 1, "visible_cores": "0-127"},
            "visible_cores='0-127'.*PyTorch can address 127.*such as 0-126",
        ),
    ],
)
def test_a_machine_that_does_not_exist_is_refused_with_the_allowed_values(
    arguments: dict[str, object], message: str
) -> None:
    before = config.current()
    with pytest.raises(ConfigurationError, match=message):
        torch.neuron.set_instance(**arguments)  # type: ignore[arg-type]
    assert config.current() is before


def test_after_first_use_the_machine_is_fixed() -> None:
    torch.ones(1, device="neuron")
    before = config.current()
    with pytest.raises(RuntimeError, match="cannot change after a neuron device was first used"):
        torch.neuron.set_instance("trn3.3xlarge")
    assert config.current() is before
    assert torch.neuron.get_device_name() == "trn2"


@pytest.mark.parametrize(
    ("code", "environ"),
    [
        ("torch.neuron.set_instance('trn2.48xlarge', logical_core_size=1)", {}),
        ("", {"TORCH_TRAINIUM_INSTANCE": "trn2.48xlarge", "NEURON_LOGICAL_NC_CONFIG": "1"}),
    ],
)
def test_a_process_sees_127_of_128_cores_and_is_told(code: str, environ: dict[str, str]) -> None:
    code = f"""
import torch
{code}
print(torch.neuron.device_count(), torch.ones(2, device="neuron:126").sum().item())
"""
    done = run_python(code, environ=environ)
    assert done.stdout.split() == ["127", "2.0"]
    assert "trn2.48xlarge has 128 logical cores" in done.stderr
    assert "NEURON_RT_VISIBLE_CORES chooses others" in done.stderr
