"""Streams, events and the current stream of each device."""

from types import TracebackType
from typing import Any

import torch

from torch_trainium import _C
from torch_trainium.errors import UnsupportedOnNeuronError
from torch_trainium.neuron._utils import Device, _get_device_index
from torch_trainium.neuron.devices import device as device_context


class Stream(torch.Stream):
    """A queue of work on one device, executed in order and apart from other queues.

    Args:
        device: the device to queue on; the current one when None or negative.
        priority: negative for the high-priority queues, else 0.

    """

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> "Stream":
        """Take a queue of the device's pool, or name an existing one by stream_id."""
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        index = _get_device_index(device, optional=True)
        if index < 0:
            index = _get_device_index(None, optional=True)
        return super().__new__(cls, device=torch.device("neuron", index), priority=priority)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record `event`, or a new one, after the work queued so far; returns it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def wait_event(self, event: torch.Event) -> None:
        """Make work queued from now on wait for `event`. Returns at once."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Make work queued from now on wait for what is queued on `stream`. Returns at once."""
        self.wait_event(stream.record_event())

    def query(self) -> bool:
        """Whether all work queued so far is done."""
        return super().query()

    def synchronize(self) -> None:
        """Wait until all work queued so far is done."""
        super().synchronize()

    def __repr__(self) -> str:
        return f"<torch.neuron.Stream device={self.device} stream_id={self.stream_id}>"


class Event(torch.Event):
    """A point in a stream's work, to wait for or to measure time from.

    Args:
        enable_timing: whether `elapsed_time` can be asked; costs nothing here.
        blocking: accepted and without effect: waiting never spins.
        interprocess: must be False.

    Raises:
        UnsupportedOnNeuronError: `interprocess` is True.

    """

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> "Event":
        """Create an event that belongs to the device of the stream it is first recorded on."""
        if interprocess:
            raise UnsupportedOnNeuronError(
                "A neuron event cannot be shared between processes. Synchronize the stream and "
                "use a multiprocessing.Event to tell the other process."
            )
        return super().__new__(cls, "neuron", enable_timing=enable_timing, blocking=blocking)

    def record(self, stream: torch.Stream | None = None) -> None:
        """Mark the work queued so far on `stream`, or on the current one."""
        super().record(current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Make work queued from now on `stream`, or the current one, wait. Returns at once."""
        super().wait(current_stream() if stream is None else stream)

    def query(self) -> bool:
        """Whether the marked work is done; True for an event that was never recorded."""
        return super().query()

    def synchronize(self) -> None:
        """Wait until the marked work is done."""
        super().synchronize()

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds of device time between this event and `end_event`.

        Raises:
            RuntimeError: one of the events was not recorded.
            ValueError: one was created without `enable_timing`, or on another device.

        """
        return float(_C.elapsed_milliseconds(self, end_event))

    def __repr__(self) -> str:
        return f"<torch.neuron.Event device={self.device} event_id={self.event_id}>"


class StreamContext:
    """Context manager that makes `stream` current; see `torch.neuron.stream`."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._device = device_context(-1 if stream is None else stream.device_index)
        self._previous: torch.Stream | None = None

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self._previous = current_stream(self.stream.device_index)
            self._device.__enter__()
            set_stream(self.stream)
        return self.stream

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._previous is not None:
            set_stream(self._previous)
            self._device.__exit__(exc_type, exc_value, traceback)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Queue work on `stream` and its device inside a `with` block; None changes nothing."""
    return StreamContext(stream)


def current_stream(device: Device = None) -> Stream:
    """The stream that the calling thread queues work for `device` on."""
    index = _get_device_index(device, optional=True)
    return _of_this_class(torch.accelerator.current_stream(index))


def default_stream(device: Device = None) -> Stream:
    """The stream of `device` that is current until another one is made so."""
    index = _get_device_index(device, optional=True)
    return Stream(stream_id=0, device_index=index, device_type=_DEVICE_TYPE)


def set_stream(stream: torch.Stream | None) -> None:
    """Make `stream` and its device current; None changes nothing. Prefer `stream`."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


def wait_stream(stream: torch.Stream) -> None:
    """Make work queued from now on the current stream wait for what is queued on `stream`."""
    current_stream().wait_stream(stream)


def wait_event(event: torch.Event) -> None:
    """Make work queued from now on the current stream wait for `event`."""
    current_stream().wait_event(event)


def record_event(event: torch.Event | None = None) -> torch.Event:
    """Record `event`, or a new one, on the current stream; returns it."""
    return current_stream().record_event(event)


def query() -> bool:
    """Whether all work queued on the current stream is done."""
    return current_stream().query()


def is_current_stream_capturing() -> bool:
    """Whether the current stream records a graph instead of executing: never."""
    return False


def _of_this_class(stream: torch.Stream) -> Stream:
    return Stream(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    set_stream(Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


# torch.device("neuron") as PyTorch's streams number it.
_DEVICE_TYPE = torch._C._autograd.DeviceType.PrivateUse1.value
