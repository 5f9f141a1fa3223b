"""Each rule of the compiler, on a module that breaks it."""

import pytest
import torch
from jaxlib.mlir import ir

from torch_trainium.engines import mlir
from torch_trainium.lowering import legality, windows
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.emitted import tokens_of
from torch_trainium.lowering.windows import Window

F32, I32, I64, U8 = torch.float32, torch.int32, torch.int64, torch.uint8


def module_of(write, *operands: tuple[torch.dtype, tuple[int, ...]]) -> set[str]:
    """The tokens of a program that computes `write(x, *values)`."""
    with Builder() as x:
        values = [windows.read(x, contiguous(dtype, shape))[1] for dtype, shape in operands]
        results = write(x, *values)
        return tokens_of(x.finish(results if isinstance(results, list) else [results]))


def contiguous(dtype: torch.dtype, shape: tuple[int, ...]) -> Window:
    return Window(dtype, shape, torch.empty(shape, device="meta").stride())


def convolve(**how):
    def write(x, image, kernel):
        how_ = {"strides": [1, 1], "dilation": [1, 1], "padding": [(2, 2)] * 2} | how
        return x.convolution(image, kernel, **how_)

    return write, (F32, (1, 2, 8, 8)), (F32, (2, 2, 3, 3))


def fold_windows(combine, **how):
    def write(x, a):
        return x.reduce_window([a], [0], combine, [2], **how)

    return write, (F32, (8,))


def put(dtype, combine):
    def write(x, a, index, updates):
        return x.put_elements(a, [index], updates, combine)

    return write, (dtype, (8,)), (I64, (3,)), (dtype, (3,))


def add(a, b):
    return a + b


REFUSED = [
    ("NCC_EVRF022", lambda x, a: x.shift_right(a, a), (I64, (4,))),
    ("NCC_EVRF022", lambda x, a: x.shift_right(a, a), (torch.int16, (4,))),
    ("NCC_EVRF016", *put(I32, add)),
    ("NCC_EVRF016", *put(torch.bool, lambda a, b: a | b)),
    (
        "NCC_EVRF019",
        lambda x, a, b: x.reduce_window([a, b], [0, 0], lambda p, q, r, s: [p + r, q + s], [2]),
        (F32, (8,)),
        (F32, (8,)),
    ),
    ("NCC_EVRF035", lambda x, a, b: x.dot(a, b), (I64, (2, 2)), (I64, (2, 2))),
    ("NCC_EVRF062", lambda x, a: x.power(a, a), (I64, (4,))),
    ("NCC_EVRF010", *convolve(input_dilation=[2, 2], dilation=[2, 2])),
    ("NCC_EVRF011", *convolve(input_dilation=[2, 2], strides=[2, 2])),
    ("NCC_ESPP004", lambda x, a: a.to(torch.float64), (F32, (4,))),
    ("NCC_EVRF004", lambda x, a: x.complex(a, a), (F32, (4,))),
]
TAKEN = [
    (lambda x, a: x.shift_right(a, a), (I32, (4,))),
    put(F32, add),
    put(I64, None),
    fold_windows(add, strides=[2], padding=[(1, 1)]),
    (lambda x, a, b: x.dot(a, b), (F32, (2, 2)), (F32, (2, 2))),
    (lambda x, a: x.power(a, a), (I32, (4,))),
    convolve(input_dilation=[2, 2]),
    convolve(strides=[2, 2], dilation=[2, 2]),
    (lambda x, a: x.any(a), (F32, (4,))),
    (lambda x, a: x.chlo_unary("Erf", a), (F32, (4,))),
]


@pytest.mark.parametrize(("code", "write", "operands"), [(c, w, o) for c, w, *o in REFUSED])
@pytest.mark.parametrize("target", legality.TARGETS)
def test_refused(target, code, write, operands):
    codes = {
        refusal.code for refusal in legality.rules(target).refusals(module_of(write, *operands))
    }
    assert codes == {code}


@pytest.mark.parametrize(("write", "operands"), [(w, o) for w, *o in TAKEN])
@pytest.mark.parametrize("target", legality.TARGETS)
def test_taken(target, write, operands):
    assert not legality.rules(target).refusals(module_of(write, *operands))


# What no lowering writes any more.
SORT = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.sort"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}"""
WINDOWS = """
func.func @main(%a: tensor<8xf32>, %z: tensor<f32>) -> tensor<NxfNN> {
  %r = "stablehlo.reduce_window"(%a, %z) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {window_dimensions = array<i64: 2>, DILATION = array<i64: 2>}
    : (tensor<8xf32>, tensor<f32>) -> tensor<NxfNN>
  return %r : tensor<NxfNN>
}"""


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("NCC_EVRF029", SORT),
        (
            "NCC_EVRF017",
            WINDOWS.replace("DILATION", "base_dilations").replace("NxfNN", "14xf32"),
        ),
        (
            "NCC_EVRF018",
            WINDOWS.replace("DILATION", "window_dilations").replace("NxfNN", "6xf32"),
        ),
    ],
)
def test_refused_in_any_program(code, text):
    with mlir.context(), ir.Location.unknown():
        module = mlir.bytecode(ir.Module.parse(text))
    (refusal,) = legality.rules("trn2").refusals(tokens_of(module))
    assert refusal.code == code


@pytest.mark.parametrize("operation", ["fft", "cholesky", "triangular_solve"])
def test_transforms_and_solvers_are_refused(operation):
    assert legality.rules("trn2").refusal(operation).code == "NCC_EVRF001"


def test_only_documented_custom_calls_are_known():
    rules = legality.rules("trn2")
    assert rules.refusal("custom_call:AwsNeuronSoftmax") is None
    assert rules.refusal("custom_call:mine").code == "NCC_EVRF015"


def test_topk_is_for_floats():
    rules = legality.rules("trn3")
    assert rules.refusal("top_k@bf16") is None
    assert rules.refusal("top_k@i64").code == "NCC_EVRF013"


def test_what_no_source_mentions_is_refused_as_not_known():
    assert "not known" in str(legality.rules("trn2").refusal("batch_norm_training"))


def test_every_row_names_a_source_and_takes_effect():
    data = legality.document()
    for row in data["refused"]:
        assert row["source"] in data["sources"]
        for pattern in row["tokens"]:
            token = pattern.replace("*", "x").replace("[iu]x", "i64")
            for target in row["targets"]:
                assert legality.rules(target).refusal(token).code == row["code"]
    assert set(data["operations"]) <= set(data["sources"])


def test_float64_and_complex_are_no_dtypes_of_the_targets():
    for target in legality.TARGETS:
        rules = legality.rules(target)
        assert not any(rules.takes_dtype(d) for d in (torch.float64, torch.complex64))
        assert rules.takes_dtype(torch.int64)


def test_fp8_of_the_finite_kind_is_trn3s():
    assert legality.rules("trn3").takes_dtype(torch.float8_e4m3fn)
    assert not legality.rules("trn2").takes_dtype(torch.float8_e4m3fn)


def test_a_refusal_says_what_to_write_instead():
    refusal = legality.rules("trn2").refusal("sort")
    assert str(refusal) == "NCC_EVRF029: sort is not supported; use torch.topk"
