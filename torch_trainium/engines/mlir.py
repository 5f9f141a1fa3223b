"""jaxlib's MLIR: one context with the dialects that programs are written in."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, stablehlo

TYPED_FFI = 4


@cache
def context() -> Any:
    """The context of this process; enter it to build or parse a module."""
    made = ir.Context()
    made.enable_multithreading(False)
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    chlo.register_dialect(made)
    stablehlo.register_dialect(made)
    return made


def bytecode(module: Any) -> bytes:
    """A module as MLIR bytecode."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def custom_call(
    target: str,
    operands: Sequence[Any],
    results: Sequence[Any] = (),
    attributes: Mapping[str, Any] | None = None,
) -> list[Any]:
    """A call of a handler that takes and gives row-major arrays; its results, of these types.

    One without results has an effect.
    """
    call = stablehlo.CustomCallOp(
        list(results),
        list(operands),
        ir.StringAttr.get(target),
        has_side_effect=ir.BoolAttr.get(not results),
        backend_config=ir.DictAttr.get(dict(attributes or {})),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), TYPED_FFI),
        operand_layouts=ir.ArrayAttr.get([_row_major(operand.type) for operand in operands]),
        result_layouts=ir.ArrayAttr.get([_row_major(result) for result in results]),
    )
    return list(call.results)


def _row_major(tensor: Any) -> Any:
    rank = ir.RankedTensorType(tensor).rank
    numbers = ", ".join(str(d) for d in reversed(range(rank)))
    return ir.Attribute.parse(f"dense<[{numbers}]> : tensor<{rank}xindex>")
