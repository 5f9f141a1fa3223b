"""Environment variables: one table, read once, never fatal to read."""

import pytest

from torch_trainium import config
from torch_trainium.hardware.profiles import profile_names


def test_defaults_describe_one_trn2_chip() -> None:
    settings = config.read({})
    assert settings.error == ""
    assert settings.machine is not None
    assert settings.machine.device_count == 4
    assert not settings.given
    assert settings["TORCH_TRAINIUM_LOG_OPS"] is False


def test_values_are_parsed_and_their_origin_is_shown() -> None:
    settings = config.read({"TORCH_TRAINIUM_LOG_OPS": " 1 ", "TORCH_TRAINIUM_LOG": "INFO"})
    assert settings["TORCH_TRAINIUM_LOG_OPS"] is True
    assert settings["TORCH_TRAINIUM_LOG"] == "info"
    assert "TORCH_TRAINIUM_LOG_OPS = True (switch, environment)" in str(settings)
    assert "NEURON_RT_NUM_CORES = unset (count, default)" in str(settings)


def test_empty_variable_counts_as_unset() -> None:
    assert config.read({"TORCH_TRAINIUM_ENABLE": ""})["TORCH_TRAINIUM_ENABLE"] is None


@pytest.mark.parametrize(
    "environ",
    [
        {"TORCH_TRAINIUM_LOG_OPS": "maybe"},
        {"TORCH_TRAINIUM_LOG": "loud"},
        {"TORCH_TRAINIUM_SANITIZER": "threads"},
        {"TORCH_TRAINIUM_INSTANCE": "trn9.large"},
        {"TORCH_TRAINIUM_PROFILE": "torchneuron-9"},
        {"TORCH_TRAINIUM_HBM_BYTES": "24G"},
        {"NEURON_RT_NUM_CORES": "-1"},
    ],
)
def test_bad_value_is_kept_as_an_error_that_names_the_variable(environ: dict[str, str]) -> None:
    settings = config.read(environ)
    (name,) = environ
    assert settings.machine is None
    assert name in settings.error
    assert environ[name] in settings.error
    assert f"error: {settings.error}" in str(settings)


def test_a_profile_is_one_of_the_data_file() -> None:
    assert config.read({})["TORCH_TRAINIUM_PROFILE"] == "torchneuron-2.33"
    for name in profile_names():
        settings = config.read({"TORCH_TRAINIUM_PROFILE": name})
        assert settings["TORCH_TRAINIUM_PROFILE"] == name
        assert settings.error == ""
    error = config.read({"TORCH_TRAINIUM_PROFILE": "cuda"}).error
    assert all(name in error for name in profile_names())


ALL_128_CORES = {"TORCH_TRAINIUM_INSTANCE": "trn2.48xlarge", "NEURON_LOGICAL_NC_CONFIG": "1"}


@pytest.mark.parametrize("more", [{}, {"NEURON_RT_NUM_CORES": "0"}])
def test_cores_that_a_process_cannot_see_are_pointed_out(more: dict[str, str]) -> None:
    (sentence,) = config.hidden_cores(config.read({**ALL_128_CORES, **more}))
    assert "trn2.48xlarge has 128 logical cores" in sentence
    assert "sees cores 0 to 126" in sentence


@pytest.mark.parametrize(
    "more", [{"NEURON_RT_VISIBLE_CORES": "0-126"}, {"NEURON_RT_NUM_CORES": "127"}]
)
def test_cores_that_nobody_asked_for_are_not(more: dict[str, str]) -> None:
    assert config.hidden_cores(config.read({**ALL_128_CORES, **more})) == []


def test_two_bad_values_are_both_reported() -> None:
    error = config.read({"TORCH_TRAINIUM_LOG": "loud", "TORCH_TRAINIUM_INSTANCE": "x"}).error
    assert "TORCH_TRAINIUM_LOG=" in error
    assert "TORCH_TRAINIUM_INSTANCE=" in error


def test_unknown_variable_is_named_with_its_near_match() -> None:
    (sentence,) = config.unknown_variables(
        {"TORCH_TRAINIUM_INSTANCES": "x", "TORCH_TRAINIUM_LOG": "info", "PATH": "/"}
    )
    assert "TORCH_TRAINIUM_INSTANCES" in sentence
    assert "did you mean TORCH_TRAINIUM_INSTANCE?" in sentence


def test_unknown_variable_like_none_lists_the_known() -> None:
    (sentence,) = config.unknown_variables({"TORCH_TRAINIUM_ZZZ": "1"})
    assert "TORCH_TRAINIUM_HBM_BYTES" in sentence


def test_every_variable_is_documented_once() -> None:
    names = [variable.name for variable in config.VARIABLES]
    assert len(names) == len(set(names))
    assert all(variable.doc.endswith(".") for variable in config.VARIABLES)


def test_settings_in_force_are_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = config.current()
    monkeypatch.setenv("TORCH_TRAINIUM_LOG_OPS", "1")
    assert config.current() is before
