"""The registry, and what lowerings are held to."""

import pytest
import torch

from tests.python_process import output_of
from torch_trainium.eager import calls
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, registry
from torch_trainium.lowering.call import Call, Tensor
from torch_trainium.lowering.program import lower_operator
from torch_trainium.lowering.windows import Window

from .compare import on_the_cpu

aten = torch.ops.aten


def test_the_table_is_read_without_jaxlib():
    code = """
import sys
from torch_trainium.lowering import table
assert len(table.rows()) > 2000
print(sorted(name for name in sys.modules if name.startswith("jaxlib")))
"""
    assert output_of(code) == "[]"


def test_two_lowerings_of_one_overload_are_refused():
    registry.table()
    with pytest.raises(ValueError, match="aten::mm has two lowerings"):
        registry.lower(aten.mm)(lambda x: None)


@pytest.mark.parametrize(
    ("overload", "functional"),
    [
        (aten.add_.Tensor, aten.add.Tensor),
        (aten.add.out, aten.add.Tensor),
        (aten.max.dim_max, aten.max.dim),
        (aten._foreach_add_.Scalar, aten._foreach_add.Scalar),
        (aten._native_batch_norm_legit.default, aten._native_batch_norm_legit_functional.default),
    ],
)
def test_writing_forms_derive_from_the_functional_one(overload, functional):
    assert dispatch.functional_form(overload) is functional


def test_a_dtype_that_programs_do_not_have_is_named():
    window = Window(torch.complex32, (2,), (1,))
    with pytest.raises(LoweringError, match=r"aten::neg.*complex32.*convert"):
        lower_operator(Call(aten.neg.default, {"self": Tensor(0, window)}, ()))


def test_a_refusal_is_remembered():
    tensor = torch.zeros(2, dtype=torch.complex32)
    for _ in range(2):
        with on_the_cpu(), pytest.raises(LoweringError):
            calls.call(aten.neg.default, tensor)
