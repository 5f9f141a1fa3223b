"""What PyTorch's kernels refuse and its shape functions let pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_trainium.lowering.registry import qualified_name

aten = torch.ops.aten

Operand = Tensor | bool | int | float | complex


def _expect(holds: bool, message: str, error: type[Exception] = RuntimeError) -> None:
    if not holds:
        raise error(message)


def _dtype(operand: Operand) -> torch.dtype:
    return operand.dtype if isinstance(operand, Tensor) else torch.tensor(operand).dtype


def _alpha(a: Operand, b: Operand, alpha: Operand = 1) -> None:
    result, number = torch.result_type(a, b), _dtype(alpha)
    _expect(
        number is not torch.bool or result is torch.bool,
        "Boolean alpha only supported for Boolean results.",
    )
    _expect(
        result.is_floating_point or result.is_complex or not number.is_floating_point,
        "For integral input tensors, argument alpha must not be a floating point number.",
    )
    _expect(
        result.is_complex or not number.is_complex,
        "For non-complex input tensors, argument alpha must not be a complex number.",
    )


def _difference(a: Operand, b: Operand, alpha: Operand = 1) -> None:
    kinds = [_dtype(operand) is torch.bool for operand in (a, b)]
    _expect(
        not all(kinds),
        "Subtraction, the `-` operator, with two bool tensors is not supported. "
        "Use the `^` or `logical_xor()` operator instead.",
    )
    _expect(
        not any(kinds),
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
        "to invert a mask, use the `~` or `logical_not()` operator instead.",
    )
    _alpha(a, b, alpha)


def _of_members(check: Callable[..., None]) -> Callable[..., None]:
    """The same of each member of a list, with a list of second operands or one for all."""

    def check_members(tensors: list[Tensor], others: Any, alpha: Operand = 1) -> None:
        each = others if isinstance(others, list) else [others] * len(tensors)
        for a, b in zip(tensors, each, strict=False):
            check(a, b, alpha)

    return check_members


def _one_dtype(name: str) -> Callable[..., None]:
    def check(a: Tensor, b: Tensor) -> None:
        _expect(a.dtype is b.dtype, f"{name} is not yet implemented for tensors of two dtypes.")

    return check


def _elements(name: str, without_dims: type[Exception]) -> Callable[..., None]:
    """An extreme is one of the elements."""

    def check(a: Tensor, *args: Any, dim: Any = None, **_: Any) -> None:
        dims = args[0] if args else dim
        if a.numel():
            return
        _expect(
            dims not in (None, []),
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument.",
            without_dims,
        )
        for d in dims if isinstance(dims, list) else [dims]:
            _expect(
                a.dim() == 0 or a.shape[d] > 0,
                f"{name}(): Expected reduction dim {d} to have non-zero size.",
                IndexError,
            )

    return check


def _concatenated(tensors: list[Tensor], dim: int = 0, *, out: Tensor) -> None:
    given = next((t.dtype for t in tensors if not torch.can_cast(t.dtype, out.dtype)), out.dtype)
    _expect(
        torch.can_cast(given, out.dtype),
        f"torch.cat(): input types can't be cast to the desired output type {out.dtype}",
        TypeError,
    )


def _power(a: Tensor, exponent: complex) -> None:
    result = torch.result_type(a, exponent)
    if result.is_floating_point:
        torch.full((2,), exponent, dtype=result, device="cpu")  # raises where it does not fit


_EXTREMES: dict[str, tuple[tuple[Any, ...], type[Exception]]] = {
    "argmax": ((aten.argmax.default,), IndexError),
    "argmin": ((aten.argmin.default,), IndexError),
    "amax": ((aten.amax.default,), RuntimeError),
    "amin": ((aten.amin.default,), RuntimeError),
    "aminmax": ((aten.aminmax.default,), RuntimeError),
    "max": ((aten.max.default, aten.max.dim), RuntimeError),
    "min": ((aten.min.default, aten.min.dim), RuntimeError),
    "median": ((aten.median.dim, aten.nanmedian.dim), RuntimeError),
    "mode": ((aten.mode.default,), RuntimeError),
}

_BY_OVERLOAD: dict[Any, Callable[..., None]] = {
    **dict.fromkeys((aten.add.Tensor, aten.add.Scalar), _alpha),
    **dict.fromkeys((aten.sub.Tensor, aten.sub.Scalar), _difference),
    **dict.fromkeys((aten.rsub.Tensor, aten.rsub.Scalar), _difference),
    **dict.fromkeys((aten._foreach_add.List, aten._foreach_add.Tensor), _of_members(_alpha)),
    aten._foreach_sub.List: _of_members(_difference),
    aten._foreach_sub.Scalar: _of_members(_difference),
    aten._foreach_sub.ScalarList: _of_members(_difference),
    aten.pow.Tensor_Scalar: _power,
    aten.heaviside.default: _one_dtype("heaviside"),
    **dict.fromkeys((aten.cat.out, aten.stack.out), _concatenated),
    **{
        overload: _elements(name, without_dims)
        for name, (overloads, without_dims) in _EXTREMES.items()
        for overload in overloads
    },
}

# By qualified overload; each takes the overload's arguments, tensors without data among them.
TABLE = {qualified_name(overload): check for overload, check in _BY_OVERLOAD.items()}

# Whose results must have the dtype of `out=`: their kernels do not convert. The overload is `out`
# where none is named.
_EXACT_OUT = """
_linalg_eigh.eigenvalues _linalg_slogdet.sign _linalg_solve_ex.result all amax amin aminmax any
avg_pool3d binary_cross_entropy bitwise_not bucketize.Tensor_out clamp clamp_max clamp_min
conj_physical constant_pad_nd cummax cummin elu flip frexp.Tensor_out gelu hardshrink hardsigmoid
hardswish hardtanh heaviside histc index_add index_copy index_select isin.Tensor_Tensor_out
kthvalue.values leaky_relu linalg_cross linalg_ldl_factor_ex linalg_ldl_solve linalg_lu
linalg_lu_factor_ex linalg_lu_solve linalg_qr linalg_solve_triangular log_sigmoid
log_sigmoid_forward.output logcumsumexp lu_unpack median.dim_values mish mode.values multinomial
nan_to_num nanmedian.dim_values native_batch_norm neg nll_loss nll_loss_forward.output ormqr
reflection_pad2d renorm repeat roll round round.decimals_out scatter_reduce.two_out
searchsorted.Tensor_out slice_scatter softmax.int_out softplus softshrink sort.values
sort.values_stable take tril triu unfold_copy
"""
EXACT_OUT = frozenset(
    f"aten::{name}" if "." in name else f"aten::{name}.out" for name in _EXACT_OUT.split()
)
