"""Products of matrices by PyTorch's kernels."""

import pytest
import torch

from tests.engines.rewritten import assert_same, operator
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

aten = torch.ops.aten
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("transposed", [(), (0,), (1,), (0, 1)], ids=str)
def test_a_product(dtype, transposed):
    def body(x: Builder, *operands: Value) -> Value:
        a, b = (x.transpose(v, [1, 0]) if i in transposed else v for i, v in enumerate(operands))
        return x.matmul(a, b)

    shapes = [(192, 160), (160, 176)]
    a, b = (
        torch.rand(shape[::-1] if i in transposed else shape).to(dtype)
        for i, shape in enumerate(shapes)
    )
    assert_same(body, a, b, kernels=["dot"])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_batch(dtype):
    a, b = torch.rand(12, 64, 80).to(dtype), torch.rand(12, 80, 96).to(dtype)
    assert_same(operator(aten.bmm.default), a, b, kernels=["dot"])


def heads(x: Builder, joined: Value) -> Value:
    """(batch, length, heads * width) to (batch * heads, length, width)."""
    batch, length, width = joined.shape
    apart = x.transpose(x.reshape(joined, [batch, length, 4, width // 4]), [0, 2, 1, 3])
    return x.reshape(apart, [batch * 4, length, width // 4])


def test_heads_of_attention():
    def body(x: Builder, q: Value, k: Value) -> Value:
        return x.matmul(heads(x, q), x.transpose(heads(x, k), [0, 2, 1]))

    assert_same(body, torch.rand(3, 64, 128), torch.rand(3, 64, 128), kernels=["dot"])


def test_parts_of_one_array():
    def body(x: Builder, joined: Value) -> Value:
        q, k = (heads(x, x.slice_in_dim(joined, 2, start, start + 128)) for start in (0, 256))
        return x.matmul(q, x.transpose(k, [0, 2, 1]))

    assert_same(body, torch.rand(3, 64, 384), kernels=["dot"])


def test_every_second_row():
    def body(x: Builder, a: Value, b: Value) -> Value:
        rows = x.emit(x.hlo.SliceOp(a.ir, [1, 2], [257, 130], [2, 1]), a.dtype)
        return x.matmul(rows, b)

    assert_same(body, torch.rand(260, 140), torch.rand(128, 96), kernels=["dot"])


@pytest.mark.parametrize(
    ("shape_a", "shape_b", "contracted", "batch"),
    [
        ((6, 8, 64, 32), (6, 8, 32, 48), ([3], [2]), ([0, 1], [0, 1])),
        ((6, 64, 8, 32), (8, 32, 6, 48), ([3], [1]), ([0, 2], [2, 0])),
        ((16, 24, 8, 40), (8, 40, 120), ([2, 3], [0, 1]), ([], [])),
        ((8, 16, 40, 24), (120, 40, 8), ([0, 2], [2, 1]), ([], [])),
        ((64, 5, 32, 24), (5, 9, 32, 16), ([2], [2]), ([1], [0])),
    ],
)
def test_any_dimensions(shape_a, shape_b, contracted, batch):
    def body(x: Builder, a: Value, b: Value) -> Value:
        return x.dot_general(a, b, *contracted, *batch)

    assert_same(body, torch.rand(shape_a), torch.rand(shape_b), kernels=["dot"])


def test_an_expanded_operand():
    def body(x: Builder, a: Value, b: Value) -> Value:
        return x.matmul(a, x.broadcast(b, [12, 80, 96]))

    assert_same(body, torch.rand(12, 64, 80), torch.rand(80, 96), kernels=["dot"])


def test_a_product_that_is_used_unrounded_stays():
    def body(x: Builder, a: Value, b: Value) -> Value:
        return x.dot(a, b, accumulate=torch.float32)

    a, b = (torch.rand(256, 256).bfloat16() for _ in range(2))
    assert_same(body, a, b, kernels=[])


def test_a_rounded_product_that_is_used_unrounded_as_well_stays():
    def body(x: Builder, a: Value, b: Value) -> tuple[Value, Value]:
        product = x.dot(a, b, accumulate=torch.float32)
        return product, product.to(torch.bfloat16)

    a, b = (torch.rand(256, 256).bfloat16() for _ in range(2))
    assert_same(body, a, b, kernels=[])


def test_a_product_inside_a_loop():
    def body(x: Builder, a: Value) -> Value:
        count = x.constant(0, torch.int32)
        _, power = x.while_(
            [count, a], lambda n, _: n < 3, lambda n, power: [n + 1, x.matmul(power, a)]
        )
        return power

    assert_same(body, torch.rand(128, 128) / 12, kernels=["dot"])


@pytest.mark.parametrize(
    ("shape_a", "shape_b"),
    [((8, 8), (8, 8)), ((1, 2048), (2048, 2048)), ((2048, 2048), (2048, 1))],
)
def test_small_products_and_vectors_stay(shape_a, shape_b):
    assert_same(operator(aten.mm.default), torch.rand(shape_a), torch.rand(shape_b), kernels=[])


def test_integers_stay():
    a, b = (torch.randint(9, (128, 128)) for _ in range(2))
    assert_same(operator(aten.mm.default), a, b, kernels=[], exact=True)


def test_an_infinity_times_zero_is_nan():
    a, b = torch.rand(128, 128), torch.rand(128, 128)
    a[3, 5], b[5, 7] = torch.inf, 0
    assert_same(operator(aten.mm.default), a, b, kernels=["dot"])
