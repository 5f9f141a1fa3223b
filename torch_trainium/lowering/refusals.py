"""What PyTorch's kernels refuse and its shape functions let pass."""

from __future__ import annotations

from typing import Any

import torch

from torch_trainium.lowering.registry import qualified_name

aten = torch.ops.aten

# They refuse dtypes and numbers, whatever the shapes are.
_OF_ONE_ELEMENT = frozenset(
    map(
        qualified_name,
        (
            *(aten.add.Tensor, aten.add.Scalar, aten._foreach_add.List, aten._foreach_add.Tensor),
            *(aten.sub.Tensor, aten.sub.Scalar, aten.rsub.Tensor, aten.rsub.Scalar),
            *(aten._foreach_sub.List, aten._foreach_sub.Scalar, aten._foreach_sub.ScalarList),
            *(aten.pow.Tensor_Scalar, aten.abs_.default, aten.heaviside.default),
            *(aten.cat.out, aten.stack.out),
        ),
    )
)
# They give elements, and refuse to find one where there is none.
_OF_NONE = frozenset(
    map(
        qualified_name,
        (
            *(aten.argmax.default, aten.argmin.default, aten.amax.default, aten.amin.default),
            *(aten.aminmax.default, aten.max.default, aten.max.dim, aten.min.default, aten.min.dim),
            *(aten.median.dim, aten.nanmedian.dim, aten.mode.default),
        ),
    )
)


def expect_taken(overload: Any, positional: list[Any], named: dict[str, Any]) -> None:
    """Raise what the CPU's kernel raises for such arguments.

    Args:
        overload: the operator.
        positional, named: its arguments; tensors need no data.

    """
    name = qualified_name(overload)
    if name in _OF_ONE_ELEMENT or (name in _OF_NONE and not positional[0].numel()):
        overload(*_small(positional), **{key: _small(value) for key, value in named.items()})


def _small(argument: Any) -> Any:
    """An argument on the CPU, of one element at most."""
    if isinstance(argument, torch.Tensor):
        shape = [min(length, 1) for length in argument.shape]
        return torch.ones(shape, dtype=argument.dtype, device="cpu")
    return [_small(item) for item in argument] if isinstance(argument, list) else argument


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
