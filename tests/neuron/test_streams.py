"""Streams, events and the current stream, through torch.neuron and through torch."""

import pytest
import torch

from torch_trainium.errors import UnsupportedOnNeuronError


@pytest.fixture(autouse=True)
def restore_streams():
    yield
    for index in range(torch.neuron.device_count()):
        torch.neuron.set_stream(torch.neuron.default_stream(index))
    torch.neuron.set_device(0)


def test_classes_are_those_that_dynamo_traces() -> None:
    assert issubclass(torch.neuron.Stream, torch.Stream)
    assert issubclass(torch.neuron.Event, torch.Event)


def test_stream_belongs_to_the_device_asked_for() -> None:
    assert torch.neuron.Stream("neuron:2").device == torch.device("neuron:2")
    assert torch.neuron.Stream(1, priority=-1).device_index == 1
    with torch.neuron.device(3):
        assert torch.neuron.Stream().device_index == 3
        assert torch.neuron.Stream(priority=-1).device_index == 3
        assert torch.neuron.Stream(-1).device_index == 3


def test_priorities_have_different_streams() -> None:
    normal = {torch.neuron.Stream(0).stream_id for _ in range(100)}
    high = {torch.neuron.Stream(0, priority=-1).stream_id for _ in range(100)}
    assert normal.isdisjoint(high)
    assert 0 not in normal | high


def test_default_stream_is_current_at_first_and_equal_to_torch_accelerators() -> None:
    assert torch.neuron.current_stream() == torch.neuron.default_stream()
    assert torch.neuron.current_stream() == torch.accelerator.current_stream()
    assert torch.neuron.default_stream(1) != torch.neuron.default_stream(0)
    assert hash(torch.neuron.current_stream()) == hash(torch.neuron.default_stream())


def test_stream_context_selects_stream_and_device_and_restores_both() -> None:
    stream = torch.neuron.Stream(2)
    with torch.neuron.stream(stream) as entered:
        assert entered is stream
        assert torch.neuron.current_device() == 2
        assert torch.neuron.current_stream() == stream
        assert torch.neuron.current_stream(0) == torch.neuron.default_stream(0)
    assert torch.neuron.current_device() == 0
    assert torch.neuron.current_stream(2) == torch.neuron.default_stream(2)


def test_stream_context_of_none_changes_nothing() -> None:
    with torch.neuron.stream(None):
        assert torch.neuron.current_stream() == torch.neuron.default_stream()


def test_stream_is_a_context_manager_itself() -> None:
    stream = torch.neuron.Stream(1)
    with stream:
        assert torch.neuron.current_stream() == stream
    assert torch.neuron.current_stream(1) == torch.neuron.default_stream(1)


def test_set_stream_changes_the_device_too() -> None:
    stream = torch.neuron.Stream(1)
    torch.neuron.set_stream(stream)
    assert torch.neuron.current_device() == 1
    assert torch.neuron.current_stream(1) == stream
    torch.neuron.set_stream(None)
    assert torch.neuron.current_stream(1) == stream


def test_set_stream_by_id_names_the_same_stream() -> None:
    stream = torch.neuron.Stream(1)
    torch.neuron._set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)
    assert torch.neuron.current_stream(1) == stream


def test_waiting_between_streams_orders_work() -> None:
    producer, consumer = torch.neuron.Stream(), torch.neuron.Stream()
    with torch.neuron.stream(producer):
        value = torch.arange(1000, device="neuron").sum()
    consumer.wait_stream(producer)
    with torch.neuron.stream(consumer):
        doubled = value * 2
    value.record_stream(consumer)
    consumer.synchronize()
    assert doubled.item() == 999000
    assert consumer.query()


def test_module_functions_act_on_the_current_stream() -> None:
    side = torch.neuron.Stream()
    with torch.neuron.stream(side):
        event = torch.neuron.record_event()
        assert isinstance(event, torch.neuron.Event)
        torch.neuron.wait_event(event)
        torch.neuron.wait_stream(torch.neuron.default_stream())
        assert torch.neuron.query()
    assert not torch.neuron.is_current_stream_capturing()


def test_event_measures_device_time() -> None:
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.ones(512, 512, device="neuron") @ torch.ones(512, 512, device="neuron")
    end.record()
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) > 0
    assert start.elapsed_time(start) == 0


def test_event_without_timing_refuses_to_measure() -> None:
    first, second = torch.neuron.Event(), torch.neuron.Event()
    first.record()
    second.record()
    with pytest.raises(ValueError, match="enable_timing"):
        first.elapsed_time(second)


def test_unrecorded_event_is_done_and_cannot_be_measured() -> None:
    first, second = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    assert first.query()
    first.synchronize()
    with pytest.raises((RuntimeError, ValueError), match="recorded"):
        first.elapsed_time(second)


def test_event_refuses_what_only_ipc_could_do() -> None:
    with pytest.raises(UnsupportedOnNeuronError, match="between processes"):
        torch.neuron.Event(interprocess=True)


def test_generic_streams_and_events_mix_with_ours() -> None:
    generic = torch.Stream(device="neuron:1")
    event = torch.Event("neuron", enable_timing=True)
    event.record(generic)
    torch.neuron.Stream(1).wait_event(event)
    ours = torch.neuron.Stream(1).record_event()
    generic.wait_event(ours)
    with torch.neuron.stream(generic):
        assert torch.neuron.current_stream() == generic


def test_representation_names_device_and_stream() -> None:
    text = repr(torch.neuron.default_stream(3))
    assert "neuron:3" in text
    assert "stream_id=0" in text
    assert "torch.neuron.Event" in repr(torch.neuron.Event())
