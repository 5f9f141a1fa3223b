"""Operators whose result depends on the data in more than its elements: how long it is, or a bool.

No program has such a result. Each is a few programs with a number that the host reads between
them, as it would on the chip: one program fills a result of a length that is never too small, and
the part that counts is copied out of it. The lengths in use are powers of two, so that there are
few programs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from torch_trainium import _C
from torch_trainium.lowering.dtypes import counting_dtype

Tensor = torch.Tensor
Function = TypeVar("Function", bound=Callable[..., Any])

aten = torch.ops.aten


@dataclass(frozen=True)
class Composite:
    """An operator made of others.

    Attributes:
        function: takes the overload's arguments, tensors on the device.
        operators: the overloads that it calls, by qualified name; it is native where they are.

    """

    function: Callable[..., Any]
    operators: tuple[str, ...]


COMPOSITES: dict[str, Composite] = {}


def composite(overload: Any, operators: str) -> Callable[[Function], Function]:
    """Register a function for an overload; `operators` names the others, without "aten::"."""

    def register(function: Function) -> Function:
        names = tuple(f"aten::{name}" for name in operators.split())
        COMPOSITES[overload.name()] = Composite(function, names)
        return function

    return register


def register_kernels() -> torch.library.Library:
    """Let the device run these operators so, until the library is destroyed."""
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for name, row in COMPOSITES.items():
        _implement(library, name, row.function)
        packet = getattr(aten, name.removeprefix("aten::").partition(".")[0])
        out = _OUT_OVERLOADS.get(name, "out")
        if out in packet.overloads():
            written = getattr(packet, out)
            _implement(library, written.name(), _into(row.function, written))
    for overload in _INDEXED:
        _register_index(library, overload)
    for overload in (aten.linalg_lstsq.default, aten.linalg_lstsq.out):
        _register_lstsq(library, overload)
    return library


# What takes indices, and from how many of them on masks among them become places: a program writes
# through a mask alone without knowing what it chooses.
_INDEXED = {
    aten.index.Tensor: 1,
    aten.index.Tensor_out: 1,
    aten.index_put.default: 2,
    aten.index_put_.default: 2,
    aten._index_put_impl_.default: 2,
}
_OUT_OVERLOADS = {
    "aten::repeat_interleave.Tensor": "Tensor_out",
    "aten::_ctc_loss.Tensor": "Tensor_out",
}


def _implement(library: torch.library.Library, name: str, function: Callable[..., Any]) -> None:
    """Let an overload be `function`, but where it is a CPU fallback, as the kernel below knows."""
    below = torch.library.get_kernel(name, "PrivateUse1")

    def kernel(keys: Any, first: Tensor, *args: Any, **kwargs: Any) -> Any:
        if _C.fallbacks.reason(name, [first.dtype], []):
            return below.call_boxed(keys, first, *args, **kwargs)
        with torch._C._AutoDispatchBelowAutograd():
            return function(first, *args, **kwargs)

    library.impl(name, kernel, "PrivateUse1", with_keyset=True, allow_override=True)  # type: ignore[no-untyped-call]


def _into(function: Callable[..., Any], overload: Any) -> Callable[..., Any]:
    """The `out=` form of a function."""
    outs = [a.name for a in overload._schema.arguments if a.is_out]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        targets = [kwargs.pop(name) for name in outs]
        results = function(*args, **kwargs)
        results = results if isinstance(results, tuple) else (results,)
        for target, result in zip(targets, results, strict=True):
            if not torch.can_cast(result.dtype, target.dtype):
                raise RuntimeError(
                    f"{overload.name()}: a result of {result.dtype} cannot be cast to out= of "
                    f"{target.dtype}; give out= a dtype that holds it"
                )
            _resize(target, result.shape)
            target.copy_(result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return kernel


def _resize(target: Tensor, shape: torch.Size) -> None:
    """Give an `out=` tensor its shape, with PyTorch's warning where it has another that is used."""
    if target.shape == shape:
        return
    if target.numel():
        warnings.warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(target.shape)}, which does not match the required output shape {list(shape)}. "
            "Resize it to zero elements first: out.resize_(0)",
            stacklevel=4,
        )
    target.resize_(shape)


def _room(count: int, most: int) -> int:
    """A length for `count` elements of at most `most`, one of few."""
    return min(1 << max(count - 1, 0).bit_length(), most)


def _first(count: int, padded: Tensor) -> Tensor:
    """The first `count` of a longer tensor, in memory of their own."""
    if padded.shape[0] == count:
        return padded
    return padded.new_empty((count, *padded.shape[1:])).copy_(padded[:count])


def _chosen(mask: Tensor) -> tuple[Tensor, int]:
    """Places of a flat mask's true elements, padded with zeros, and how many they are."""
    count = int(aten.count_nonzero(mask))
    padded = aten.nonzero_static(mask, size=_room(count, mask.numel()), fill_value=0)
    return padded.squeeze(1), count


@composite(aten.nonzero.default, "count_nonzero nonzero_static")
def nonzero(a: Tensor) -> Tensor:
    """Places of the elements that are not zero, (count, dims); a column lies densely."""
    count = int(aten.count_nonzero(a))
    padded = aten.nonzero_static(a, size=_room(count, a.numel()), fill_value=0)
    return a.new_empty((a.dim(), count), dtype=torch.int64).t().copy_(padded[:count])


@composite(aten.masked_select.default, "count_nonzero nonzero_static index_select")
def masked_select(a: Tensor, mask: Tensor) -> Tensor:
    """The elements under a mask, in order."""
    if mask.dtype is not torch.bool:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, found {mask.dtype}")
    shape = torch.broadcast_shapes(a.shape, mask.shape)  # type: ignore[no-untyped-call]
    return _under(mask.expand(shape).reshape(-1), a.expand(shape).reshape(-1))[0]


def _under(mask: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Of each tensor, the rows where a flat mask is true."""
    places, count = _chosen(mask)
    if not count:
        return tuple(t.new_empty((0, *t.shape[1:])) for t in tensors)
    return tuple(_first(count, aten.index_select(t, 0, places)) for t in tensors)


@composite(aten.equal.default, "eq.Tensor all")
def equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have one shape and the same elements."""
    if a.dtype != b.dtype:
        raise RuntimeError(f"equal: expected one dtype, found {a.dtype} and {b.dtype}")
    if a.device != b.device:
        raise RuntimeError(f"equal: expected one device, found {a.device} and {b.device}")
    if a.shape != b.shape:
        return False
    return a.numel() == 0 or bool(aten.all(aten.eq.Tensor(a, b)))


# What isclose consists of.
_CLOSE = (
    "_to_copy abs add.Scalar bitwise_and.Tensor bitwise_and_.Tensor bitwise_or_.Tensor eq.Tensor "
    "isnan le.Tensor mul.Scalar mul.Tensor ne.Scalar sub.Tensor"
)


@composite(aten.allclose.default, f"all {_CLOSE}")
def allclose(
    a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, as `torch.isclose` has it."""
    return bool(aten.all(aten.isclose(a, b, rtol, atol, equal_nan)))


@composite(aten.bincount.default, "min max scatter_add _to_copy")
def bincount(a: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 occurs, or the sum of its weights."""
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength should be >= 0, found {minlength}")
    if a.dim() != 1 or a.dtype.is_floating_point or a.dtype is torch.bool:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != a.shape:
        raise RuntimeError("bincount: weights should be 1-d and have the same length as input")
    dtype = counting_dtype(a.numel())
    if weights is not None:
        dtype = torch.float32 if weights.dtype is torch.float32 else torch.float64
    if a.numel() == 0:
        return torch.zeros(minlength, dtype=torch.int64, device=a.device)
    if int(aten.min(a)) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    length = max(int(aten.max(a)) + 1, minlength)
    start = torch.zeros(_room(length, 2 * length), dtype=dtype, device=a.device)
    added = torch.ones_like(a, dtype=dtype) if weights is None else weights.to(dtype)
    found = _first(length, aten.scatter_add(start, 0, a.to(torch.int64), added))
    return found if weights is not None else found.to(torch.int64)


@composite(aten.repeat_interleave.Tensor, "min sum cumsum searchsorted.Tensor arange")
def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """0 as often as the first number says, then 1 as often as the second, and so on."""
    if repeats.dim() != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in (torch.int64, torch.int32):
        raise RuntimeError("repeats has to be Long or Int tensor")
    if repeats.numel() == 0:
        return torch.empty_like(repeats)
    if int(aten.min(repeats)) < 0:
        raise RuntimeError("repeats can not be negative")
    ends = aten.cumsum(repeats, 0)
    count = int(aten.sum(repeats)) if output_size is None else output_size
    numbers = torch.arange(_room(count, 2 * count), dtype=ends.dtype, device=repeats.device)
    found = aten.searchsorted.Tensor(ends, numbers, right=True)
    return _first(count, found).to(repeats.dtype)


@composite(aten._linalg_check_errors.default, "_to_copy")
def linalg_check_errors(info: Tensor, api_name: str, *, is_matrix: bool) -> None:
    """Raise what LAPACK's error codes stand for, read by the host."""
    aten._linalg_check_errors(info.cpu(), api_name, is_matrix=is_matrix)


@composite(aten._ctc_loss.Tensor, "_ctc_loss _to_copy")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Tensor, Tensor]:
    """The loss with lengths read by the host: the second result is as wide as the longest."""
    lengths = (input_lengths.tolist(), target_lengths.tolist())
    losses: tuple[Tensor, Tensor] = aten._ctc_loss(
        log_probs, targets, *lengths, blank, zero_infinity
    )
    return losses


_DISTINCT = (
    "ne.Tensor cumsum count_nonzero nonzero_static index_select sub.Tensor scatter.src scatter_add "
    "_to_copy"
)


@composite(aten._unique2.default, f"sort {_DISTINCT}")
def unique(
    a: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct elements in order, where each of `a` is among them, how often each occurs."""
    values, order = aten.sort(a.reshape(-1))
    return _distinct(values, order, a.shape, return_inverse, return_counts)


@composite(aten._unique.default, f"sort {_DISTINCT}")
def unique_without_counts(
    a: Tensor, sorted: bool = True, return_inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """The same without the counts."""
    return unique(a, sorted, return_inverse, False)[:2]


@composite(aten.unique_dim.default, f"arange sort.stable any.dim {_DISTINCT}")
def unique_dim(
    a: Tensor,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct slices along a dimension in order, and the same about them, asked for or not."""
    rows = _rows(a, dim)
    order = torch.arange(rows.shape[0], device=a.device)
    columns = rows.flatten(1) if rows.dim() > 1 else rows.unsqueeze(1)
    for column in reversed(columns.unbind(1)):
        keys = aten.index_select(column, 0, order)
        order = aten.index_select(order, 0, aten.sort.stable(keys, stable=True)[1])
    found = _distinct(aten.index_select(rows, 0, order), order, order.shape, True, True)
    return found[0].movedim(0, dim), *found[1:]


@composite(aten.unique_consecutive.default, f"any.dim {_DISTINCT}")
def unique_consecutive(
    a: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each run of equal elements one, and the same about them."""
    if dim is not None and not (dim == 0 and a.dim() == 1):
        return unique_dim_consecutive(a, dim, return_inverse, return_counts)
    return _distinct(a.reshape(-1), None, a.shape, return_inverse, return_counts)


@composite(aten.unique_dim_consecutive.default, f"any.dim {_DISTINCT}")
def unique_dim_consecutive(
    a: Tensor, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each run of equal slices along a dimension one, and the same, asked for or not."""
    rows = _rows(a, dim)
    found = _distinct(rows, None, rows.shape[:1], True, True)
    return found[0].movedim(0, dim), *found[1:]


def _rows(a: Tensor, dim: int) -> Tensor:
    if a.numel() == 0 and a.shape[dim] and 0 in (*a.shape[:dim], *a.shape[dim:][1:]):
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    return a.movedim(dim, 0).contiguous()


def _distinct(
    rows: Tensor,
    order: Tensor | None,
    shape: torch.Size,
    return_inverse: bool,
    return_counts: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The first row of each run of equal ones.

    Args:
        rows: in the order in which runs count.
        order: where each row was before; None where it still is.
        shape: of the inverse.
        return_inverse: whether to say in which run each of the rows before is.
        return_counts: whether to say how long the runs are.

    """
    length = rows.shape[0]
    nothing = rows.new_empty(0, dtype=torch.int64)
    if length == 0:
        inverse = rows.new_empty(shape, dtype=torch.int64) if return_inverse else nothing
        return rows, inverse, nothing
    differs = aten.ne.Tensor(rows[1:], rows[:-1])
    if rows.dim() > 1:
        differs = aten.any.dim(differs.flatten(1), 1)
    is_first = torch.ones(length, dtype=torch.bool, device=rows.device)
    is_first[1:].copy_(differs)
    (values,) = _under(is_first, rows)
    run = aten.cumsum(is_first, 0) - 1
    inverse = counts = nothing
    if return_inverse:
        inverse = run if order is None else aten.scatter(run, 0, order, run)
        inverse = inverse.reshape(shape)
    if return_counts:
        ones = torch.ones_like(run, dtype=counting_dtype(length))
        found = aten.scatter_add(torch.zeros_like(ones), 0, run, ones)
        counts = _first(values.shape[0], found.to(torch.int64))
    return values, inverse, counts


def index_by_places(a: Tensor, indices: list[Tensor | None]) -> list[Tensor | None]:
    """Indices in which masks are replaced by the places of their true elements.

    Raises:
        IndexError: a mask has another shape than the dimensions it stands for.

    """
    places: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            places.append(index)
            continue
        at = len(places)
        if index.shape != a.shape[at : at + index.dim()]:
            raise IndexError(
                f"The shape of the mask {list(index.shape)} at index {at} does not match the "
                f"shape of the indexed tensor {list(a.shape)} at index {at}"
            )
        places.extend(nonzero(index.to(a.device)).unbind(1))
    return places


def _register_index(library: torch.library.Library, overload: Any) -> None:
    """Masks become places before the operator's program, the kernel below, sees them."""
    program = torch.library.get_kernel(overload.name(), "PrivateUse1")

    def kernel(
        keys: Any, a: Tensor, indices: list[Tensor | None], *rest: Any, **out: Tensor
    ) -> Any:
        if sum(index is not None for index in indices) >= _INDEXED[overload]:
            with torch._C._AutoDispatchBelowAutograd():
                indices = index_by_places(a, indices)
        return program.call_boxed(keys, a, indices, *rest, **out)

    library.impl(overload.name(), kernel, "PrivateUse1", with_keyset=True, allow_override=True)  # type: ignore[no-untyped-call]


def _register_lstsq(library: torch.library.Library, overload: Any) -> None:
    """There are no residuals where the driver finds a matrix without full rank."""
    program = torch.library.get_kernel(overload.name(), "PrivateUse1")

    def kernel(
        keys: Any,
        a: Tensor,
        b: Tensor,
        rcond: float | None = None,
        *,
        driver: str | None = None,
        **out: Tensor,
    ) -> tuple[Tensor, ...]:
        results: tuple[Tensor, ...] = program.call_boxed(keys, a, b, rcond, driver=driver, **out)
        _, residuals, rank, _ = results
        if driver in ("gelsd", "gelss") and residuals.numel():
            with torch._C._AutoDispatchBelowAutograd():
                if int(aten.min(rank)) < a.shape[-1]:
                    residuals.resize_(0)
        return results

    library.impl(overload.name(), kernel, "PrivateUse1", with_keyset=True, allow_override=True)  # type: ignore[no-untyped-call]
