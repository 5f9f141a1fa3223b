"""Builder methods for products of matrices, and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dtypes
from torch_trainium.lowering.reductions import Reductions, _int64_matrix
from torch_trainium.lowering.values import Value


class Contractions(Reductions):
    """Products accumulate in float32 where the operands are narrower."""

    def dot(self, a: Value, b: Value, accumulate: torch.dtype | None = None) -> Value:
        """Matrix product of the last two dimensions; those before are a batch of one shape.

        The result has the dtype `accumulate`, or the operands' own.
        """
        batch = list(range(a.rank - 2))
        return self.dot_general(a, b, [a.rank - 1], [b.rank - 2], batch, batch, accumulate)

    def dot_general(
        self,
        a: Value,
        b: Value,
        contract_a: Sequence[int],
        contract_b: Sequence[int],
        batch_a: Sequence[int] = (),
        batch_b: Sequence[int] = (),
        accumulate: torch.dtype | None = None,
    ) -> Value:
        """Sum of products over pairs of dimensions: batch dimensions first, then a's, then b's."""
        is_float8 = a.dtype.is_floating_point and a.dtype.itemsize == b.dtype.itemsize == 1
        if a.dtype is not b.dtype and not is_float8:
            raise LoweringError(
                f"a product of {a.dtype} and {b.dtype} has no dtype; convert one of them"
            )
        dtype = accumulate or a.dtype
        numbers = self.hlo.DotDimensionNumbers.get(
            lhs_batching_dimensions=list(batch_a),
            rhs_batching_dimensions=list(batch_b),
            lhs_contracting_dimensions=list(contract_a),
            rhs_contracting_dimensions=list(contract_b),
        )
        used_a, used_b = {*batch_a, *contract_a}, {*batch_b, *contract_b}
        shape = [a.shape[d] for d in batch_a]
        shape += [n for d, n in enumerate(a.shape) if d not in used_a]
        shape += [n for d, n in enumerate(b.shape) if d not in used_b]
        type_ = self.type_of(dtype, shape)
        return self.emit(self.hlo.DotGeneralOp(type_, a.ir, b.ir, numbers), dtype)

    def matmul(self, a: Value, b: Value) -> Value:
        """The same as `dot`, rounded once to the operands' dtype."""
        wide = dtypes.compute_dtype(a.dtype)
        if wide is a.dtype:
            return self.dot(a, b)
        return self.dot(a, b, accumulate=wide).to(a.dtype)

    def convolution(
        self,
        a: Value,
        kernel: Value,
        *,
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        dilation: Sequence[int],
        input_dilation: Sequence[int] | None = None,
        groups: int = 1,
        batch_groups: int = 1,
        dimensions: str = "[b, f, {s}]x[o, i, {s}]->[b, f, {s}]",
        accumulate: torch.dtype | None = None,
    ) -> Value:
        """A convolution without reversing the kernel, as PyTorch's.

        `dimensions` names the dimensions of operands and result: b batch, f feature, o and i the
        kernel's outputs and inputs, {s} the spatial ones.
        """
        spatial = len(strides)
        dtype = accumulate or a.dtype
        names = ", ".join(map(str, range(spatial)))
        text = dimensions.replace("{s}", names).replace(", ]", "]")
        numbers = self.ir.Attribute.parse(f"#stablehlo.conv<{text}>")
        left, rest = text.split("x[")
        right, out = (part.strip(" []") for part in rest.split("->"))
        sizes_a = dict(zip(left.strip(" []").split(", "), a.shape, strict=True))
        sizes_k = dict(zip(right.split(", "), kernel.shape, strict=True))
        lengths = {"b": sizes_a["b"] // batch_groups, "f": sizes_k["o"]}
        for d in range(spatial):
            base = sizes_a[str(d)]
            base = (base - 1) * (input_dilation[d] if input_dilation else 1) + 1 if base else 0
            reach = dilation[d] * (sizes_k[str(d)] - 1) + 1
            room = base + sum(padding[d]) - reach
            lengths[str(d)] = room // strides[d] + 1 if room >= 0 else 0
        operation = self.hlo.ConvolutionOp(
            self.type_of(dtype, [lengths[name] for name in out.split(", ")]),
            a.ir,
            kernel.ir,
            numbers,
            groups,
            batch_groups,
            window_strides=list(strides),
            padding=self.ir.DenseIntElementsAttr.get(_int64_matrix(padding)),
            lhs_dilation=list(input_dilation) if input_dilation else None,
            rhs_dilation=list(dilation),
        )
        return self.emit(operation, dtype)
