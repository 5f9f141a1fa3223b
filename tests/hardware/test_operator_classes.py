import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from torch_trainium.hardware.operator_classes import (
    cost_class_of,
    is_listed,
    operators_by_class,
)

HEADER = Path(__file__).resolve().parents[2] / "csrc" / "timeline" / "cost_class.h"

# What one supported release has and the other has not.
ONLY_IN = {
    "2.13": {"aten::cholesky", "aten::cholesky.out", "aten::qr", "aten::qr.Q"},
    "2.14": {
        "aten::_philox_key_fold_in.Tensor",
        "aten::_scaled_grouped_mm_v2.out",
        "aten::linalg_matrix_sqrth",
        "aten::linalg_matrix_sqrth.out",
        "aten::linalg_polar",
        "aten::linalg_polar.out",
    },
}
# These return their argument where nothing is to be done; what they are for is the copy.
COPIES_THAT_MAY_BE_VIEWS = {
    "aten::_autocast_to_full_precision",
    "aten::_autocast_to_reduced_precision",
    "aten::coalesce",
    "aten::contiguous",
    "aten::to.device",
    "aten::to.dtype",
    "aten::to.dtype_layout",
    "aten::to.other",
}


def schemas_of_this_torch():
    names = [name.removesuffix(".") for name in torch._C._dispatch_get_all_op_names()]
    return {
        name: torch._C._get_schema(*(name.partition(".")[::2]))
        for name in names
        if name.startswith("aten::")
    }


SCHEMAS = schemas_of_this_torch()


def is_write(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def read_arguments(schema):
    """Names and types of the arguments that an operator and its in-place and out= forms share."""
    of_new_tensors = ("dtype", "layout", "device", "pin_memory")
    return tuple(
        (a.name, str(a.type))
        for a in schema.arguments
        if not a.is_out and a.name not in of_new_tensors
    )


def functional_forms():
    """Each in-place or out= overload, with the functional overload of the same arguments."""
    functional = {
        (schema.name, read_arguments(schema)): name
        for name, schema in SCHEMAS.items()
        if not any(map(is_write, schema.arguments))
    }
    for name, schema in SCHEMAS.items():
        writes = [argument for argument in schema.arguments if is_write(argument)]
        if not writes:
            continue
        base = schema.name
        if not any(argument.is_out for argument in writes):
            in_place = re.fullmatch(r"aten::__i(\w+__)", base)
            base = f"aten::__{in_place[1]}" if in_place else base.removesuffix("_")
        form = functional.get((base, read_arguments(schema)))
        if form:
            yield name, form


FUNCTIONAL_FORMS = dict(functional_forms())


def test_every_operator_of_this_torch_is_listed():
    assert not {name for name in SCHEMAS if not is_listed(name)}


def test_no_operator_is_listed_twice():
    counts = Counter(name for operators in operators_by_class().values() for name in operators)
    assert not {name for name, count in counts.items() if count > 1}


def test_only_operators_of_the_supported_releases_are_listed():
    minor = ".".join(torch.__version__.split(".")[:2])
    others = set().union(*(names for release, names in ONLY_IN.items() if release != minor))
    listed = {name for operators in operators_by_class().values() for name in operators}
    assert listed - set(SCHEMAS) == others - set(SCHEMAS)
    assert ONLY_IN[minor] <= set(SCHEMAS)


@pytest.mark.parametrize("cost_class", operators_by_class())
def test_operators_of_a_class_are_sorted(cost_class):
    operators = operators_by_class()[cost_class]
    assert list(operators) == sorted(operators)


def test_classes_are_those_of_the_cost_model():
    declared = re.findall(r'_\(k\w+, "(\w+)"\)', HEADER.read_text())
    # No ATen operator is a collective.
    assert set(operators_by_class()) == set(declared) - {"collective"}


def test_in_place_and_out_forms_have_the_class_of_their_functional_form():
    assert len(FUNCTIONAL_FORMS) > 1400
    differing = {
        name: (cost_class_of(name), form, cost_class_of(form))
        for name, form in FUNCTIONAL_FORMS.items()
        if cost_class_of(name) != cost_class_of(form)
    }
    assert not differing


def is_view(schema):
    aliases = any(returned.alias_info for returned in schema.returns)
    return aliases and not any(map(is_write, schema.arguments))


def test_views_are_free():
    costly = {
        name
        for name, schema in SCHEMAS.items()
        if is_view(schema) and cost_class_of(name) != "free"
    }
    assert costly == COPIES_THAT_MAY_BE_VIEWS


def test_copies_of_views_are_copies():
    views = {schema.name for schema in SCHEMAS.values() if is_view(schema)}
    copies = {name: s.name for name, s in SCHEMAS.items() if s.name.removesuffix("_copy") in views}
    wrong = {
        name
        for name, base in copies.items()
        if base.endswith("_copy") and cost_class_of(name) != "copy"
    }
    # The broadcast of a sparse tensor is a sparse kernel.
    sparse = {"aten::_sparse_broadcast_to_copy", "aten::_sparse_broadcast_to_copy.out"}
    assert wrong == sparse


@pytest.mark.parametrize(
    ("operator", "cost_class"),
    [
        ("aten::max", "extremum"),
        ("aten::max.other", "pointwise"),
        ("aten::max.out", "pointwise"),
        ("aten::max.dim_max", "extremum"),
        ("aten::where", "cpu_fallback"),
        ("aten::where.self", "pointwise"),
        ("aten::repeat_interleave.Tensor", "cpu_fallback"),
        ("aten::repeat_interleave.self_int", "copy"),
    ],
)
def test_overloads_of_one_name_may_differ(operator, cost_class):
    assert cost_class_of(operator) == cost_class


def test_an_unlisted_operator_runs_on_the_host():
    assert not is_listed("mylib::fused_thing")
    assert cost_class_of("mylib::fused_thing") == "cpu_fallback"
