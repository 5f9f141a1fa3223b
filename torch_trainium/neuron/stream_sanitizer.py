"""`torch.neuron.sanitizer`: finds uses of the same memory that nothing orders."""

import warnings
from typing import Any, NamedTuple

from torch_trainium import _C, config
from torch_trainium.errors import StreamRaceError, StreamRaceWarning
from torch_trainium.neuron.observe import INTERNAL_FOLDERS

# By the kind of race.
_MESSAGES = {
    "use_without_wait": "{later} {does} without waiting for {earlier}, which {did}. "
    "Call {later_variable}.wait_stream({earlier_variable}) in between, or let it wait for an "
    "event that {earlier_variable} recorded in between.",
    "reuse_without_wait": "{later} {does}, in memory of a freed tensor, without waiting for "
    "{earlier}, which {did}. Where a tensor is allocated on one stream and first used on another, "
    "call {later_variable}.wait_stream({earlier_variable}) in between.",
    "missing_record_stream": "{later} {does}, in memory of a freed tensor that {earlier} still "
    "uses: it {did}. Call tensor.record_stream({earlier_variable}) before that tensor is freed, "
    "or {later_variable}.wait_stream({earlier_variable}) before its memory is used again.",
    "early_host_access": "{later} {does} without waiting for {earlier}, which {did}. "
    "Call {earlier_variable}.synchronize() in between, or synchronize() of an event recorded "
    "after the copy.",
}


class StreamUse(NamedTuple):
    """One tensor that an operator reads or writes.

    Attributes:
        operator: such as "aten::add.Tensor".
        line: the user's, such as "/path/train.py:12 (step)"; the node in autograd's threads;
            empty where there is neither.
        writes: whether the operator writes the tensor.
        dtype: such as "Float"; empty for memory that is known by its size only.
        sizes: the tensor's shape.
        span_bytes: from the tensor's first byte to its last.
        device: index of the device, None on the host.
        stream: id of the stream, None on the host.

    """

    operator: str
    line: str
    writes: bool
    dtype: str
    sizes: tuple[int, ...]
    span_bytes: int
    device: int | None
    stream: int | None

    @property
    def stream_name(self) -> str:
        """Such as "stream 3 of neuron:0"."""
        if self.stream is None:
            return "the host"
        stream = "the default stream" if self.stream == 0 else f"stream {self.stream}"
        return f"{stream} of neuron:{self.device}"

    @property
    def _variable(self) -> str:
        return "default_stream" if self.stream == 0 else f"stream_{self.stream}"

    @property
    def _action(self) -> str:
        tensor = f"{self.dtype}{list(self.sizes)}" if self.dtype else f"{self.span_bytes} bytes"
        verb = "writes" if self.writes else "reads"
        return f"{verb} {tensor} in {self.operator} at {self.line or 'no line'}"


class StreamRace(NamedTuple):
    """Two uses of the same memory in no order, of which at least one writes."""

    kind: str  # a key of _MESSAGES
    later: StreamUse
    earlier: StreamUse

    def __str__(self) -> str:
        return _MESSAGES[self.kind].format(
            later=self.later.stream_name,
            later_variable=self.later._variable,
            does=self.later._action,
            earlier=self.earlier.stream_name,
            earlier_variable=self.earlier._variable,
            did=self.earlier._action,
        )


class StreamSanitizer:
    """Checks the order of streams while it is open; see `sanitizer`.

    Attributes:
        races: those found, each pair of lines once.
        count: how often any was found.

    """

    def __init__(self, error: bool) -> None:
        self.races: list[StreamRace] = []
        self.count = 0
        self._error = error
        self._known: set[tuple[str, str, str]] = set()

    def __enter__(self) -> "StreamSanitizer":
        if _C.sanitizer.is_running():
            raise RuntimeError("a sanitizer is on already; close it before the next one")
        _C.sanitizer.start(self._report, list(INTERNAL_FOLDERS))
        return self

    def __exit__(self, *exception: object) -> None:
        _C.sanitizer.stop()

    def _report(
        self, kind: str, later: tuple[Any, ...], earlier: tuple[Any, ...]
    ) -> type[BaseException] | None:
        race = StreamRace(kind, StreamUse(*later), StreamUse(*earlier))
        self.count += 1
        lines = (kind, race.later.line, race.earlier.line)
        is_new = lines not in self._known
        self._known.add(lines)
        if is_new:
            self.races.append(race)
        try:
            if self._error:
                raise StreamRaceError(str(race))
            if is_new:
                _warn(race)
        except (StreamRaceError, StreamRaceWarning) as error:
            if race.later.stream is None:
                return _class_of(error)
            raise
        return None


def sanitizer(check: str = "streams", *, error: bool = False) -> StreamSanitizer:
    """Report uses of the same memory that nothing orders, inside a `with` block.

    Warns with `StreamRaceWarning` where work on one stream reads or writes what another stream
    writes, or writes what it reads, and no event, wait or synchronization is between them; where
    the host does so with a copy in flight; and where a tensor's memory is used again while a
    stream that `record_stream` was not told of still uses it. TORCH_TRAINIUM_SANITIZER=streams
    does the same from the start of the process.

    Args:
        check: "streams", the only one.
        error: raise `StreamRaceError` instead of warning.

    Raises:
        ValueError: another check.
        RuntimeError: a sanitizer is on already.

    """
    if check != "streams":
        raise ValueError(f"there is no check {check!r}; use 'streams'")
    return StreamSanitizer(error)


def _start_if_asked() -> None:
    asked = config.current()["TORCH_TRAINIUM_SANITIZER"]
    if asked:
        check, _, mode = asked.partition(":")
        sanitizer(check, error=mode == "error").__enter__()


def _warn(race: StreamRace) -> None:
    file, _, rest = race.later.line.rpartition(":")
    number = rest.split(" ")[0]
    if number.isdigit():
        warnings.warn_explicit(str(race), StreamRaceWarning, file, int(number))
    else:
        warnings.warn(str(race), StreamRaceWarning, stacklevel=1)


def _class_of(error: Exception) -> type[BaseException]:
    """A class whose instances read like `error`: the interpreter raises classes only."""
    cls = type(error)
    text = str(error)
    return type(cls.__name__, (cls,), {"__str__": lambda self: text, "__module__": cls.__module__})
