"""Every operator on lists, new results and in place, against the CPU's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from .compare import CompareWithCpu

aten = torch.ops.aten
# Of addcmul and addcdiv, the overload whose numbers are elements of a tensor on the host.
HOST_TENSORS = "Tensor scalars"
SPECIAL = ("copy", "zero", "mm", "powsum")


def overloads() -> list[Any]:
    found = []
    for qualified in sorted(torch._C._dispatch_get_all_op_names()):
        packet, _, overload = qualified.removeprefix("aten::").partition(".")
        base = packet.removeprefix("_foreach_").strip("_")
        if qualified.startswith("aten::_foreach_") and base not in SPECIAL:
            found.append(getattr(getattr(aten, packet), overload or "default"))
    return [
        o
        for o in found
        if not o._schema.overload_name.endswith("out") and HOST_TENSORS not in str(o._schema)
    ]


def tensors(dtype: torch.dtype, dims: int = 2) -> list[torch.Tensor]:
    shapes = [(2, 3), (4, 4)] if dims == 2 else [(3,), (4,)]
    return [(torch.rand(shape) * 0.8 + 0.1).to("neuron", dtype) for shape in shapes]


def argument(overload: Any, schema: Any, dtype: torch.dtype) -> Any:
    kind = str(schema.real_type)
    if kind == "List[Tensor]":
        return tensors(dtype)
    if kind in ("List[Scalar]", "List[number]"):
        return [0.5, 2.0]
    if schema.type.kind() == "TensorType":
        return torch.tensor(2.0, dtype=dtype, device="neuron")
    return 2.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("overload", overloads(), ids=lambda o: o.name())
def test_members_agree(compared: CompareWithCpu, overload: Any, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    schemas = overload._schema.arguments
    arguments = [argument(overload, s, dtype) for s in schemas if not s.has_default_value()]
    overload(*arguments)


def test_copies_and_zeros(compared: CompareWithCpu) -> None:
    aten._foreach_copy_(tensors(torch.float32), tensors(torch.bfloat16))
    aten._foreach_zero_(tensors(torch.float32))
    aten._foreach_powsum(tensors(torch.float32), 3)
    assert {"aten::_foreach_copy_", "aten::_foreach_zero_"} <= set(compared.passed)
    assert "aten::_foreach_powsum.Scalar" in compared.passed
