"""Moving tensors between the devices of one process, as `nn.DataParallel` needs.

The functions are those of `torch.nn.parallel.comm`, whose own implementations exist in CUDA
builds only. Copies between devices are exact, and sums run in the order of the inputs.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch
from torch._utils import _get_device_index

Device = torch.device | str | int

__all__ = [
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
]


def broadcast(
    tensor: torch.Tensor,
    devices: Iterable[Device] | None = None,
    *,
    out: Sequence[torch.Tensor] | None = None,
) -> tuple[torch.Tensor, ...]:
    """Copies of `tensor` on each of `devices`, or in each tensor of `out`.

    The copy on the tensor's own device is the tensor itself.

    Raises:
        RuntimeError: not exactly one of `devices` and `out` is given, or a shape differs.

    """
    tensor = _real(tensor)
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} "
            f"and out={out}"
        )
    if devices is not None:
        return tuple(tensor.to(place, non_blocking=True) for place in _devices(devices))
    assert out is not None
    for index, target in enumerate(out):
        if target.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have shape {tuple(tensor.shape)}, but output "
                f"{index} has shape {tuple(target.shape)}"
            )
        target.copy_(tensor, non_blocking=True)
    return tuple(out)


def broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Iterable[Device], buffer_size: int = 10485760
) -> list[list[torch.Tensor]]:
    """Copies of `tensors` on each of `devices`, one list for each.

    `buffer_size` is accepted and has no effect: one copy costs no more in company.
    """
    sources = [_real(tensor) for tensor in tensors]
    # .data: each copy has a version counter of its own, also where it is the tensor itself.
    return [
        [tensor.data.to(place, non_blocking=True) for tensor in sources]
        for place in _devices(devices)
    ]


def reduce_add(inputs: Sequence[torch.Tensor], destination: Device | None = None) -> torch.Tensor:
    """The elementwise sum of `inputs`, on `destination` (the current device if None).

    Raises:
        ValueError: the shapes differ, or an input is on the CPU.
        RuntimeError: no input is on `destination`.

    """
    place = torch.device("neuron", _get_device_index(destination, optional=True))
    for index, tensor in enumerate(inputs):
        if tensor.device.type != "neuron":
            raise ValueError(f"reduce_add: input {index} is on {tensor.device}, expected neuron")
        if tensor.shape != inputs[0].shape:
            raise ValueError(
                f"reduce_add: input {index} has shape {tuple(tensor.shape)}, expected "
                f"{tuple(inputs[0].shape)}"
            )
    if all(tensor.device != place for tensor in inputs):
        raise RuntimeError(f"reduce_add: no input is on the destination {place}")
    if len(inputs) == 1:
        return inputs[0]
    total = inputs[0].to(place, non_blocking=True) + inputs[1].to(place, non_blocking=True)
    for tensor in inputs[2:]:
        total.add_(tensor.to(place, non_blocking=True))
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[torch.Tensor]],
    destination: Device | None = None,
    buffer_size: int = 10485760,
) -> tuple[torch.Tensor, ...]:
    """Sums over devices: element i is the sum of the i-th tensors of all `inputs`.

    `buffer_size` is accepted and has no effect.
    """
    return tuple(reduce_add(group, destination) for group in zip(*inputs, strict=True))


def scatter(
    tensor: torch.Tensor,
    devices: Iterable[Device] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[torch.Stream | None] | None = None,
    *,
    out: Sequence[torch.Tensor] | None = None,
) -> tuple[torch.Tensor, ...]:
    """Pieces of `tensor` along `dim`, one on each of `devices` or in each tensor of `out`.

    Args:
        tensor: on the CPU or a neuron device.
        devices: where the pieces go; exactly one of this and `out`.
        chunk_sizes: sizes of the pieces along `dim`; as equal as can be when None.
        dim: the dimension to cut.
        streams: the stream to copy each piece on; the current ones when None.
        out: tensors to copy the pieces to, whose sizes along `dim` are the pieces'.

    Raises:
        RuntimeError: `out` is given together with `devices` or `chunk_sizes`.

    """
    tensor = _real(tensor)
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError("scatter: 'out' excludes 'devices' and 'chunk_sizes'")
        pieces = torch.split(tensor, [target.size(dim) for target in out], dim)
        for target, piece in zip(out, pieces, strict=True):
            target.copy_(piece, non_blocking=True)
        return tuple(out)
    places = _devices(devices or ())
    if chunk_sizes is None:
        pieces = tensor.chunk(len(places), dim)
    else:
        pieces = torch.split(tensor, list(chunk_sizes), dim)
    return tuple(
        _copy_on(stream, piece, place)
        for stream, piece, place in zip(
            streams or [None] * len(pieces), pieces, places, strict=False
        )
    )


def gather(
    tensors: Sequence[torch.Tensor],
    dim: int = 0,
    destination: Device | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """The concatenation of `tensors` along `dim`, on `destination` or in `out`.

    `destination` may be "cpu" or -1 for the CPU; None is the current neuron device.

    Raises:
        RuntimeError: both `destination` and `out` are given, or shapes do not fit.

    """
    tensors = [_real(tensor) for tensor in tensors]
    if out is None:
        sizes = list(tensors[0].shape)
        sizes[dim] = sum(tensor.size(dim) for tensor in tensors)
        out = torch.empty(sizes, dtype=tensors[0].dtype, device=_gather_place(destination))
    elif destination is not None:
        raise RuntimeError(
            f"'destination' must not be specified when 'out' is specified, but got "
            f"destination={destination}"
        )
    ends = list(accumulate(tensor.size(dim) for tensor in tensors))
    for end, tensor in zip(ends, tensors, strict=True):
        size = tensor.size(dim)
        out.narrow(dim, end - size, size).copy_(tensor, non_blocking=True)
    return out


def _gather_place(destination: Device | None) -> torch.device:
    if destination in (-1, "cpu") or destination == torch.device("cpu"):
        return torch.device("cpu")
    return torch.device("neuron", _get_device_index(destination, optional=True))


def _devices(devices: Iterable[Device]) -> list[torch.device]:
    return [torch.device("neuron", _get_device_index(device)) for device in devices]


def _copy_on(stream: torch.Stream | None, piece: torch.Tensor, place: torch.device) -> torch.Tensor:
    if stream is None:
        return piece.to(place, non_blocking=True)
    with stream:
        return piece.to(place, non_blocking=True)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
