import pytest

from torch_trainium.hardware.profiles import DEFAULT_PROFILE, profile, profile_names


def test_the_default_profile_is_measured():
    assert DEFAULT_PROFILE in profile_names()
    assert profile().is_measured


def test_the_profile_of_our_own_runtime_is_marked_unmeasured():
    assert not profile("torch-trainium-nrt").is_measured


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("chip", ["trn2", "trn3"])
def test_every_profile_has_every_overhead_on_every_chip(name, chip):
    overheads = profile(name, chip).overheads_us()
    assert overheads
    assert all(value >= 0 for value in overheads.values())


@pytest.mark.parametrize("name", profile_names())
def test_trn3_starts_programs_no_later_than_trn2(name):
    trn2, trn3 = profile(name, "trn2"), profile(name, "trn3")
    assert trn3.compiled_launch_us <= trn2.compiled_launch_us
    assert trn3.eager_launch_us <= trn2.eager_launch_us


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no software profile is called 'cuda'.*xla-2.9"):
        profile("cuda")
    with pytest.raises(ValueError, match=r"no chip is called 'gpu'.*trn2"):
        profile("xla-2.9", "gpu")
