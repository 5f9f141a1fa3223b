"""Running folds and sorting by kernels."""

import pytest
import torch

from tests.engines.rewritten import assert_same, operator
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((5000,), 0), ((20, 129), 1), ((256, 40), 0), ((3, 160, 7), 1), ((3, 160, 7), -2)],
)
def test_a_running_sum(dtype, shape, dim):
    a = torch.randint(-4, 5, shape).to(dtype)
    body = operator(aten.cumsum.default, dim)
    assert_same(body, a, kernels=["cumulative_sum"], exact=dtype is not torch.bfloat16)


def test_a_running_product():
    a = 1 + torch.randn(20, 129) / 10
    assert_same(operator(aten.cumprod.default, 1), a, kernels=["cumulative_product"])


def test_a_running_sum_of_a_transposed_array():
    def body(x: Builder, a: Value) -> Value:
        return operator(aten.cumsum.default, 0)(x, x.transpose(a, [1, 0]))

    assert_same(body, torch.randn(20, 200), kernels=["cumulative_sum"])


def test_a_running_sum_of_infinities():
    a = torch.randn(20, 200)
    a[3, 50], a[3, 70], a[5, 9] = torch.inf, -torch.inf, torch.nan
    assert_same(operator(aten.cumsum.default, 1), a, kernels=["cumulative_sum"])


@pytest.mark.parametrize("overload", [aten.cummax.default, aten.logcumsumexp.default])
def test_other_running_folds_stay(overload):
    assert_same(operator(overload, 1), torch.randn(20, 200), kernels=[])


def test_steps_of_another_fold_stay():
    """Adds what lies one and two places before, and not what is three before."""

    def body(x: Builder, a: Value) -> Value:
        for reach in (1, 1, 128):
            head = x.slice_in_dim(a, 0, 0, reach)
            earlier, later = (x.slice_in_dim(a, 0, *s) for s in ((0, 255 - reach), (reach, 255)))
            a = x.concatenate([head, earlier + later], 0)
        return a

    assert_same(body, torch.randn(255, 10), kernels=[])


@pytest.mark.parametrize("shape", [(20, 10), (0, 500), (4000, 0)])
def test_short_and_empty_ones_stay(shape):
    assert_same(operator(aten.cumsum.default, 1), torch.randn(shape), kernels=[])


def awkward(*shape: int) -> torch.Tensor:
    """Numbers with ties, both zeros, both infinities, and NaN."""
    a = torch.randint(-9, 10, shape).float()
    a[a == 9], a[a == -9], a[a == 8], a[a == 7] = torch.inf, -torch.inf, torch.nan, -0.0
    return a


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(300,), (20, 100), (7, 1000), (3, 5, 500)], ids=str)
def test_a_sort(shape, descending):
    body = operator(aten.sort.default, -1, descending)
    assert_same(body, awkward(*shape), kernels=["top_k"], exact=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int16, torch.uint8], ids=str)
def test_a_sort_of_narrow_numbers(dtype):
    a = torch.randint(0, 200, (20, 100)).to(dtype)
    assert_same(operator(aten.sort.default, 0, False), a, kernels=["top_k"], exact=True)


def test_a_sort_of_wide_integers():
    a = torch.randint(-(2**62), 2**62, (20, 100)) | torch.randint(0, 2, (20, 100))
    assert_same(operator(aten.sort.default, 1, True), a, kernels=["top_k"] * 3, exact=True)


@pytest.mark.parametrize(("count", "length"), [(16, 20), (16, 500), (100, 1000), (300, 1000)])
def test_the_largest(count, length):
    body = operator(aten.topk.default, count, -1, True, True)
    assert_same(body, awkward(8, length), kernels=["top_k"], exact=True)


@pytest.mark.parametrize(("count", "length"), [(1, 1000), (20, 1000), (16, 7 * 16)])
def test_few_of_many_stay(count, length):
    body = operator(aten.topk.default, count, -1, True, True)
    assert_same(body, torch.randn(1, length), kernels=[], exact=True)
