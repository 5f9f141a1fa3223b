"""A recording of few layers as one of many: the layers of a decoder differ in no shape."""

from dataclasses import replace

from accuracy.trace import Boundary, RecordedCall, Recording, TensorUse


def repeated(recording: Recording, groups: int) -> Recording:
    """A recording of two equal groups of layers with the second one run `groups - 1` times.

    The recording has a boundary before each layer and after the last. Every copy has buffers
    and parameters of its own and reads what the copy before it wrote.
    """
    middle, end = _second_group(recording)
    head = recording.calls[: end.position]
    body = recording.calls[middle.position : end.position]
    stride = 1 + max(recording.results | _buffers(recording.calls))
    own = _buffers(body) - _buffers(recording.calls[: middle.position]) - {middle.buffer}
    copies: list[RecordedCall] = []
    entry = end.buffer
    for copy in range(1, groups - 1):
        names = {buffer: buffer + copy * stride for buffer in own}
        names[middle.buffer] = entry
        entry = names[end.buffer]
        copies.extend(_renamed(call, names) for call in body)
    tail = [_renamed(call, {end.buffer: entry}) for call in recording.calls[end.position :]]
    weights = {
        buffer + copy * stride
        for copy in range(1, groups - 1)
        for buffer in own & recording.parameters
    }
    inputs = {
        buffer + copy * stride for copy in range(1, groups - 1) for buffer in own & recording.given
    }
    return Recording(
        calls=(*head, *copies, *tail),
        given=recording.given | inputs,
        parameters=recording.parameters | weights,
        results=recording.results,
    )


def _second_group(recording: Recording) -> tuple[Boundary, Boundary]:
    layers = len(recording.boundaries) - 1
    if layers < 2 or layers % 2:
        raise ValueError(f"{layers} recorded layers are no two groups")
    return recording.boundaries[layers // 2], recording.boundaries[layers]


def _buffers(calls: tuple[RecordedCall, ...]) -> set[int]:
    return {use.buffer for call in calls for use in (*call.inputs, *call.outputs)}


def _renamed(call: RecordedCall, names: dict[int, int]) -> RecordedCall:
    def use(old: TensorUse) -> TensorUse:
        return replace(old, buffer=names[old.buffer]) if old.buffer in names else old

    return replace(call, inputs=tuple(map(use, call.inputs)), outputs=tuple(map(use, call.outputs)))
