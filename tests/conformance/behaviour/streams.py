"""Streams and events with PyTorch's semantics."""

import pytest
import torch


def _module(device: str):
    return torch.get_device_module(device)


def test_a_stream_is_of_its_device(device: str) -> None:
    stream = torch.Stream(device=device)
    assert stream.device.type == device
    assert stream.device_index == 0
    assert torch.Stream(device=f"{device}:1").device_index == 1
    assert torch.Stream(device=device).stream_id != stream.stream_id
    assert isinstance(_module(device).Stream(), torch.Stream)
    assert isinstance(_module(device).Event(), torch.Event)


def test_priorities_are_accepted(device: str) -> None:
    assert _module(device).Stream(priority=-1).device.type == device
    assert torch.Stream(device=device, priority=0).query()


def test_contexts_change_the_current_stream(device: str) -> None:
    default = torch.accelerator.current_stream()
    stream = torch.Stream(device=device)
    with stream:
        assert torch.accelerator.current_stream() == stream
        with _module(device).stream(torch.Stream(device=device)):
            assert torch.accelerator.current_stream() != stream
        assert torch.accelerator.current_stream() == stream
    assert torch.accelerator.current_stream() == default


def test_set_stream(device: str) -> None:
    default = torch.accelerator.current_stream()
    stream = torch.Stream(device=device)
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_stream() == stream
    torch.accelerator.set_stream(default)
    assert torch.accelerator.current_stream() == default


def test_devices_have_current_streams_of_their_own(device: str) -> None:
    other = torch.Stream(device=f"{device}:1")
    with _module(device).stream(other):
        assert _module(device).current_device() == 1
        assert torch.accelerator.current_stream(1) == other
        assert torch.accelerator.current_stream(0) != other
    assert _module(device).current_device() == 0


def test_equal_streams_hash_alike(device: str) -> None:
    stream = torch.Stream(device=device)
    same = torch.Stream(stream_id=stream.stream_id, device_index=0, device_type=stream.device_type)
    assert stream == same
    assert hash(stream) == hash(same)
    assert stream != torch.Stream(device=device)


def test_events_complete(device: str) -> None:
    event = torch.Event(device)
    stream = torch.accelerator.current_stream()
    event.record(stream)
    event.synchronize()
    assert event.query()
    stream.record_event().synchronize()
    assert stream.query()


def test_elapsed_time_needs_timing(device: str) -> None:
    start, end = (torch.Event(device, enable_timing=True) for _ in range(2))
    start.record()
    torch.ones(1000, device=device).sum()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    first, second = torch.Event(device), torch.Event(device)
    first.record()
    second.record()
    with pytest.raises((RuntimeError, ValueError), match="timing"):
        first.elapsed_time(second)


def test_elapsed_time_needs_recorded_events(device: str) -> None:
    start, end = (torch.Event(device, enable_timing=True) for _ in range(2))
    with pytest.raises((RuntimeError, ValueError), match="recorded"):
        start.elapsed_time(end)


def test_streams_wait_for_events_and_streams(device: str) -> None:
    first, second = torch.Stream(device=device), torch.Stream(device=device)
    with first:
        values = torch.ones(100, device=device) * 2
    event = first.record_event()
    second.wait_event(event)
    second.wait_stream(first)
    with second:
        total = values.sum()
    event.wait(torch.accelerator.current_stream())
    torch.accelerator.current_stream().wait_stream(second)
    assert total.item() == 200


def test_record_stream_keeps_memory(device: str) -> None:
    stream = torch.Stream(device=device)
    values = torch.ones(100, device=device)
    with stream:
        total = values.sum()
    values.record_stream(stream)
    del values
    torch.full((100,), 7.0, device=device)
    stream.synchronize()
    assert total.item() == 100


def test_module_streams_and_events(device: str) -> None:
    module = _module(device)
    stream, event = module.Stream(), module.Event(enable_timing=True)
    with module.stream(stream):
        event.record()
        assert module.current_stream() == stream
    assert module.current_stream() == module.default_stream()
    assert event.query()
    module.set_stream(stream)
    assert module.current_stream() == stream
    module.set_stream(module.default_stream())
    with module.stream(None):
        assert module.current_stream() == module.default_stream()


def test_events_print(device: str) -> None:
    assert device in repr(torch.Stream(device=device))
    assert device in repr(torch.Event(device))
