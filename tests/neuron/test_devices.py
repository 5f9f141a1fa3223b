"""Which devices there are, which is current, and what they are."""

import threading

import pytest
import torch

from torch_trainium.neuron._utils import _get_device_index


@pytest.fixture(autouse=True)
def restore_device():
    before = torch.neuron.current_device()
    yield
    torch.neuron.set_device(before)


def test_default_machine_is_one_trn2_chip() -> None:
    assert torch.neuron.is_available()
    assert torch.neuron.device_count() == 4


def test_set_device_takes_index_name_and_device() -> None:
    for device, index in [(1, 1), ("neuron:2", 2), (torch.device("neuron", 3), 3)]:
        torch.neuron.set_device(device)
        assert torch.neuron.current_device() == index
        assert torch.ones(1, device="neuron").device.index == index


def test_set_device_ignores_negative_index() -> None:
    torch.neuron.set_device(2)
    torch.neuron.set_device(-1)
    assert torch.neuron.current_device() == 2


def test_set_device_refuses_missing_device_and_says_how_many_there_are() -> None:
    with pytest.raises(RuntimeError, match=r"Invalid neuron device index 4.*4 device"):
        torch.neuron.set_device(4)


def test_device_context_restores_after_an_exception() -> None:
    with pytest.raises(KeyError), torch.neuron.device(3):
        assert torch.neuron.current_device() == 3
        raise KeyError
    assert torch.neuron.current_device() == 0


@pytest.mark.parametrize("nothing", [None, -1])
def test_device_context_of_nothing_changes_nothing(nothing: int | None) -> None:
    torch.neuron.set_device(1)
    with torch.neuron.device(nothing):
        assert torch.neuron.current_device() == 1
    assert torch.neuron.current_device() == 1


def test_device_context_nests() -> None:
    with torch.neuron.device(1):
        with torch.neuron.device("neuron:2"):
            assert torch.neuron.current_device() == 2
        assert torch.neuron.current_device() == 1


def test_device_of_follows_neuron_tensors_only() -> None:
    with torch.neuron.device_of(torch.ones(1, device="neuron:2")):
        assert torch.neuron.current_device() == 2
    with torch.neuron.device_of(torch.ones(1)):
        assert torch.neuron.current_device() == 0
    with torch.neuron.device_of(torch.ones(1, device="neuron:1").untyped_storage()):
        assert torch.neuron.current_device() == 1


def test_current_device_is_per_thread() -> None:
    torch.neuron.set_device(3)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.neuron.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]


def test_properties_of_trn2() -> None:
    properties = torch.neuron.get_device_properties("neuron:1")
    assert properties.name == "trn2"
    assert properties.total_memory == 24 * 2**30
    assert properties.instance_type == "trn2.3xlarge"
    assert properties.multi_processor_count == 2
    assert torch.neuron.get_device_name() == "trn2"
    assert torch.neuron.get_device_capability() == (3, 0)
    assert torch.neuron.get_arch_list() == [properties.architecture]


@pytest.mark.parametrize("function", ["get_device_properties", "get_device_name"])
@pytest.mark.parametrize("device", [4, "neuron:9"])
def test_properties_of_missing_device_raise(function: str, device: int | str) -> None:
    with pytest.raises(RuntimeError, match="4 devices"):
        getattr(torch.neuron, function)(device)


def test_every_device_reaches_every_other() -> None:
    assert torch.neuron.can_device_access_peer(0, 3)
    assert not torch.neuron.can_device_access_peer(1, 1)


def test_device_memory_used_counts_reserved_memory() -> None:
    before = torch.neuron.device_memory_used(2)
    kept = torch.empty(64 * 2**20, dtype=torch.uint8, device="neuron:2")
    assert torch.neuron.device_memory_used(2) - before >= kept.nbytes


def test_synchronize_takes_every_form_of_device() -> None:
    for device in (None, 1, "neuron", "neuron:1", torch.device("neuron:1")):
        torch.neuron.synchronize(device)
    with pytest.raises(RuntimeError, match="Invalid neuron device index"):
        torch.neuron.synchronize(100)


class TestGetDeviceIndex:
    def test_accepts_every_form(self) -> None:
        torch.neuron.set_device(2)
        forms = [1, "neuron:1", torch.device("neuron", 1), torch.neuron.device(1)]
        assert [_get_device_index(form) for form in forms] == [1, 1, 1, 1]
        assert _get_device_index(None, optional=True) == 2
        assert _get_device_index("neuron", optional=True) == 2
        assert _get_device_index("cpu", allow_cpu=True) == -1

    @pytest.mark.parametrize("device", ["cpu", "meta", None, "neuron", 1.5])
    def test_refuses_what_is_no_neuron_device(self, device: object) -> None:
        with pytest.raises(ValueError, match="Expected a neuron device"):
            _get_device_index(device)


def test_runtime_starts_on_request_and_reports_it() -> None:
    torch.neuron.init()
    assert torch.neuron.is_initialized()
    assert not torch.neuron._is_in_bad_fork()


def test_dtypes_of_the_device() -> None:
    assert torch.neuron.is_bf16_supported()
    assert not torch.neuron.is_tf32_supported()
    assert torch.bfloat16 in torch.neuron.get_amp_supported_dtype()
