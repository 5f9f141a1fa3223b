from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_trainium.hardware import ConfigurationError, Machine, machine
from torch_trainium.hardware.environment import parse_core_list

GIB = 1024**3


def refusal(environ: dict[str, str]) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        machine(environ)
    return caught.value


def test_default_machine_is_one_trn2_chip_with_four_devices_of_24_gib():
    assert machine({}) == Machine(
        instance_type="trn2.3xlarge",
        ultraserver=None,
        chip="trn2",
        device_name="Trainium2",
        architecture="NCv3",
        core_count=4,
        cores=(0, 1, 2, 3),
        device_count=4,
        logical_core_size=2,
        devices_per_hbm_stack=1,
        hbm_stack_bytes=24 * GIB,
        guard_device_memory=False,
    )


@pytest.mark.parametrize(
    ("instance", "core_size", "devices", "devices_per_stack", "stack_gib"),
    [
        ("trn2.3xlarge", "1", 8, 2, 24),
        ("trn2.48xlarge", "2", 64, 1, 24),
        ("trn2u.48xlarge", "2", 64, 1, 24),
        ("trn3.3xlarge", "2", 4, 1, 36),
        ("trn3.3xlarge", "1", 8, 2, 36),
        ("trn3pd98.3xlarge", "2", 4, 1, 36),
        ("trn3-gen1-server", "2", 64, 1, 36),
        ("trn3-gen2-server", "1", 32, 2, 36),
    ],
)
def test_instances_show_their_documented_devices(
    instance, core_size, devices, devices_per_stack, stack_gib
):
    shown = machine({"TORCH_TRAINIUM_INSTANCE": instance, "NEURON_LOGICAL_NC_CONFIG": core_size})
    assert shown.device_count == devices
    assert shown.devices_per_hbm_stack == devices_per_stack
    assert shown.hbm_stack_bytes == stack_gib * GIB


def test_empty_variables_count_as_unset():
    names = [
        "TORCH_TRAINIUM_INSTANCE",
        "NEURON_LOGICAL_NC_CONFIG",
        "NEURON_RT_VIRTUAL_CORE_SIZE",
        "NEURON_RT_VISIBLE_CORES",
        "NEURON_RT_NUM_CORES",
        "TORCH_TRAINIUM_HBM_BYTES",
        "TORCH_TRAINIUM_GUARD",
    ]
    assert machine(dict.fromkeys(names, " ")) == machine({})


def test_unknown_instance_error_lists_the_known_ones():
    error = refusal({"TORCH_TRAINIUM_INSTANCE": "p5.48xlarge"})
    assert "TORCH_TRAINIUM_INSTANCE='p5.48xlarge'" in str(error)
    assert "trn2.3xlarge" in str(error)


def test_older_name_of_the_logical_core_size_is_honoured():
    assert machine({"NEURON_RT_VIRTUAL_CORE_SIZE": "1"}).logical_core_size == 1


@pytest.mark.parametrize("name", ["NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"])
@pytest.mark.parametrize("value", ["0", "3", "two", "-1"])
def test_logical_core_size_must_be_one_or_two(name, value):
    error = refusal({name: value})
    assert error.variable == name
    assert "1 or 2" in str(error)


def test_contradicting_names_of_the_logical_core_size_are_refused():
    error = refusal({"NEURON_LOGICAL_NC_CONFIG": "2", "NEURON_RT_VIRTUAL_CORE_SIZE": "1"})
    assert "NEURON_LOGICAL_NC_CONFIG says 2" in str(error)


@pytest.mark.parametrize(("value", "devices"), [("0", 4), ("1", 1), ("4", 4)])
def test_num_cores_takes_the_first_cores_and_zero_means_all(value, devices):
    assert machine({"NEURON_RT_NUM_CORES": value}).device_count == devices


@pytest.mark.parametrize("value", ["5", "-1", "all", "1.0", "٣", "9" * 5000])
def test_num_cores_beyond_the_instance_is_refused(value):
    assert refusal({"NEURON_RT_NUM_CORES": value}).variable == "NEURON_RT_NUM_CORES"


def test_visible_cores_win_over_num_cores():
    shown = machine({"NEURON_RT_VISIBLE_CORES": "0,2", "NEURON_RT_NUM_CORES": "3"})
    assert shown.device_count == 2


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("0", (0,)),
        ("0-3", (0, 1, 2, 3)),
        ("0,2", (0, 2)),
        (" 1 - 2 , 5 ", (1, 2, 5)),
        ("3-3", (3,)),
    ],
)
def test_core_list_accepts_indices_and_ranges(text, cores):
    assert parse_core_list(text, core_count=8) == cores


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "neither a core nor a range"),
        ("a", "neither a core nor a range"),
        ("0-1-2", "neither a core nor a range"),
        ("-1", "neither a core nor a range"),
        ("0,", "neither a core nor a range"),
        ("9" * 5000, "neither a core nor a range"),
        ("3-1", "descends"),
        ("2,0", "ascending"),
        ("1,1", "ascending"),
        ("0-2,2-3", "ascending"),
        ("0-8", "has 8 logical cores"),
        ("999999999", "has 8 logical cores"),
    ],
)
def test_core_list_refusal_says_why_and_what_is_allowed(text, why):
    with pytest.raises(ConfigurationError) as caught:
        parse_core_list(text, core_count=8)
    assert caught.value.variable == "NEURON_RT_VISIBLE_CORES"
    assert why in str(caught.value)
    assert "between 0 and 7" in str(caught.value)


@st.composite
def core_lists(draw):
    """A set of cores and one of the texts that names it."""
    cores = sorted(draw(st.sets(st.integers(0, 127), min_size=1)))
    items, start = [], 0
    while start < len(cores):
        run = 1
        while start + run < len(cores) and cores[start + run] == cores[start] + run:
            run += 1
        length = draw(st.integers(1, run))
        first, last = cores[start], cores[start + length - 1]
        items.append(str(first) if length == 1 else f"{first}-{last}")
        start += length
    return tuple(cores), ",".join(items)


@given(core_lists())
def test_core_list_names_exactly_its_cores(case):
    cores, text = case
    assert parse_core_list(text, core_count=128) == cores


@given(st.text(alphabet="0123456789,- x٣", max_size=12))
def test_core_list_gives_ascending_cores_of_the_instance_or_refuses(text):
    try:
        cores = parse_core_list(text, core_count=16)
    except ConfigurationError:
        return
    assert cores
    assert list(cores) == sorted(set(cores))
    assert set(cores) <= set(range(16))


@pytest.mark.parametrize(
    ("ultraserver", "server", "devices"),
    [
        ("trn2-ultraserver", "trn2u.48xlarge", 64),
        ("trn3-gen1-ultraserver", "trn3-gen1-server", 64),
        ("trn3-gen2-ultraserver", "trn3-gen2-server", 16),
    ],
)
def test_a_process_on_an_ultraserver_sees_one_of_its_servers(ultraserver, server, devices):
    shown = machine({"TORCH_TRAINIUM_INSTANCE": ultraserver})
    assert shown.ultraserver == ultraserver
    assert shown.device_count == devices
    alone = machine({"TORCH_TRAINIUM_INSTANCE": server})
    assert replace(shown, ultraserver=None) == alone


ALL_128_CORES = {"TORCH_TRAINIUM_INSTANCE": "trn2.48xlarge", "NEURON_LOGICAL_NC_CONFIG": "1"}


@pytest.mark.parametrize("more", [{}, {"NEURON_RT_NUM_CORES": "0"}])
def test_a_process_sees_the_first_127_of_128_cores(more):
    shown = machine({**ALL_128_CORES, **more})
    assert shown.core_count == 128
    assert shown.cores == tuple(range(127))
    assert shown.device_count == 127


@pytest.mark.parametrize(
    ("variable", "value"), [("NEURON_RT_VISIBLE_CORES", "0-127"), ("NEURON_RT_NUM_CORES", "128")]
)
def test_asking_for_more_devices_than_pytorch_can_address_is_refused(variable, value):
    error = refusal({**ALL_128_CORES, variable: value})
    assert error.variable == variable
    assert "these are 128 devices, and PyTorch can address 127" in str(error)
    assert "NEURON_RT_VISIBLE_CORES to a part of them, such as 0-126" in str(error)


def test_the_last_of_128_cores_can_be_chosen():
    shown = machine({**ALL_128_CORES, "NEURON_RT_VISIBLE_CORES": "126-127"})
    assert shown.cores == (126, 127)


@pytest.mark.parametrize(
    ("cores", "devices_per_stack"), [("0-3", 2), ("2-3", 2), ("0-2", 2), ("0,2", 1), ("1-2", 1)]
)
def test_cores_on_separate_stacks_do_not_share_memory(cores, devices_per_stack):
    shown = machine({"NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_RT_VISIBLE_CORES": cores})
    assert shown.devices_per_hbm_stack == devices_per_stack


@pytest.mark.parametrize("cores", ["1-3", "0,2-3"])
def test_cores_that_share_stacks_irregularly_are_refused(cores):
    error = refusal({"NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_RT_VISIBLE_CORES": cores})
    assert error.variable == "NEURON_RT_VISIBLE_CORES"
    assert "whole stacks of 2 cores" in str(error)


@given(st.sets(st.integers(0, 7), min_size=1))
def test_devices_share_a_stack_exactly_where_their_cores_do(cores):
    cores = sorted(cores)
    environ = {
        "NEURON_LOGICAL_NC_CONFIG": "1",
        "NEURON_RT_VISIBLE_CORES": ",".join(map(str, cores)),
    }
    try:
        shared = machine(environ).devices_per_hbm_stack
    except ConfigurationError:
        return
    for i, left in enumerate(cores):
        for j, right in enumerate(cores):
            assert (i // shared == j // shared) == (left // 2 == right // 2)


@pytest.mark.parametrize("value", ["1", "1073741824", str(24 * GIB)])
def test_hbm_can_be_shrunk(value):
    assert machine({"TORCH_TRAINIUM_HBM_BYTES": value}).hbm_stack_bytes == int(value)


@pytest.mark.parametrize("value", ["0", "-1", "1GiB", "1e9", str(24 * GIB + 1)])
def test_hbm_cannot_be_empty_or_larger_than_the_stack(value):
    error = refusal({"TORCH_TRAINIUM_HBM_BYTES": value})
    assert error.variable == "TORCH_TRAINIUM_HBM_BYTES"
    assert f"1 to {24 * GIB}" in str(error)


@pytest.mark.parametrize(("value", "guarded"), [("0", False), ("1", True)])
def test_guard_mode_is_a_switch(value, guarded):
    assert machine({"TORCH_TRAINIUM_GUARD": value}).guard_device_memory is guarded


def test_guard_mode_takes_no_other_value():
    assert refusal({"TORCH_TRAINIUM_GUARD": "yes"}).variable == "TORCH_TRAINIUM_GUARD"
