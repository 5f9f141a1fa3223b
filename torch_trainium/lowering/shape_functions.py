"""Shape functions where PyTorch has none, or has another device's.

Matrices lie as LAPACK leaves them. Normalizations keep their statistics as the CPU's kernels do, in
the parameters' dtype, and none in inference: PyTorch's own functions describe CUDA's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._prims_common
from torch import Tensor

from torch_trainium.lowering.elementwise import broadcast_shape
from torch_trainium.lowering.registry import qualified_name

aten = torch.ops.aten


def by_columns(like: Tensor, shape: list[int], leading: int | None = None) -> Tensor:
    """Matrices column by column, each column in `leading` elements."""
    *batch, m, n = shape
    leading = m if leading is None else leading
    return like.new_empty([*batch, n, leading]).mT.narrow(-2, 0, m)


def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factors and weights of the reflections."""
    return by_columns(a, list(a.shape)), a.new_empty([*a.shape[:-2], min(a.shape[-2:])])


def lstsq(
    a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, ...]:
    """Solution, residuals, rank and singular values, of which a driver leaves some empty."""
    *batch, m, n = a.shape
    driver = driver or "gelsy"
    columns = b.shape[len(batch) + 1 :]
    batch = list(broadcast_shape(batch, b.shape[: b.dim() - 1 - len(columns)]))
    solution = by_columns(b, [*batch, n, *(columns or [1])], max(m, n))
    real = a.real.dtype if a.is_complex() else a.dtype
    empty = b.new_empty([0], dtype=real)
    return (
        solution if columns else solution.squeeze(-1),
        b.new_empty([*batch, *columns], dtype=real) if m > n and driver != "gelsy" else empty,
        b.new_empty([0] if driver == "gels" else batch, dtype=torch.int64),
        b.new_empty([*batch, min(m, n)], dtype=real) if driver in ("gelsd", "gelss") else empty,
    )


def max_unpool2d(a: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    """In the memory format of the pooled values."""
    shape = [*a.shape[:-2], *output_size]
    memory_format = torch._prims_common.suggest_memory_format(a)
    return torch.empty(shape, dtype=a.dtype, device=a.device, memory_format=memory_format)


def pow_of_number(base: complex, exponent: Tensor) -> Tensor:
    """Row by row, however the exponents lie."""
    return exponent.new_empty(exponent.shape, dtype=torch.result_type(base, exponent))


def pow_by_number(base: Tensor, exponent: complex) -> Tensor:
    """A boolean to the power of a boolean is one."""
    if base.dtype is torch.bool and isinstance(exponent, bool):
        return torch.empty_like(base)
    result: Tensor = aten.pow.Tensor_Scalar(base, exponent)
    return result


def foreach_pow(bases: list[Tensor], exponents: list[complex] | complex) -> list[Tensor]:
    """Each by its number, or all by one."""
    each = exponents if isinstance(exponents, list) else [exponents] * len(bases)
    return [pow_by_number(base, exponent) for base, exponent in zip(bases, each, strict=True)]


def nonzero_static(a: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Row by row, as the CPU leaves it."""
    return a.new_empty([size, a.dim()], dtype=torch.int64)


_INFERENCE = aten._native_batch_norm_legit_no_training.default


def statistics_dtype(a: Any, *parameters: Any) -> torch.dtype:
    """What a normalization keeps mean and scale in; tensors or values, parameters may be None."""
    dtype: torch.dtype = next((p.dtype for p in parameters if p is not None), a.dtype)
    return dtype


def _with_statistics(overload: Any) -> Callable[..., Any]:
    """PyTorch's shape function of a normalization, but for its second and third result."""
    names = [argument.name for argument in overload._schema.arguments]

    def shapes(*args: Any) -> tuple[Tensor, ...]:
        named = dict(zip(names, args, strict=True))
        # The functional form does not take what `native_batch_norm` and its `out=` may lack.
        lacks_statistics = "running_mean" in named and named["running_mean"] is None
        results = list((aten.native_batch_norm.default if lacks_statistics else overload)(*args))
        parameters = [named.get(n) for n in ("weight", "bias", "running_mean", "running_var")]
        dtype = statistics_dtype(args[0], *parameters)
        is_kept = named.get("training", overload is not _INFERENCE)
        for i in (1, 2):
            results[i] = args[0].new_empty(results[i].shape if is_kept else [0], dtype=dtype)
        return tuple(results)

    return shapes


_NORMALIZATIONS = (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    _INFERENCE,
    aten._batch_norm_with_update_functional.default,
    aten.native_layer_norm.default,
    aten.native_group_norm.default,
)

TABLE: dict[str, Callable[..., Any]] = {
    "aten::geqrf": geqrf,
    "aten::linalg_lstsq": lstsq,
    "aten::max_unpool2d": max_unpool2d,
    "aten::nonzero_static": nonzero_static,
    "aten::pow.Scalar": pow_of_number,
    "aten::pow.Tensor_Scalar": pow_by_number,
    "aten::_foreach_pow.Scalar": foreach_pow,
    "aten::_foreach_pow.ScalarList": foreach_pow,
    **{qualified_name(overload): _with_statistics(overload) for overload in _NORMALIZATIONS},
}
