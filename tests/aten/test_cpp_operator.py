"""Operators that users write in C++ run on the device."""

from collections.abc import Iterator

import pytest
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <torch/library.h>

// A kernel that reads memory through pointers, as written for the CPU.
at::Tensor doubled(const at::Tensor& x) {
  const at::Tensor dense = x.contiguous();
  at::Tensor result = at::empty_like(dense);
  const float* from = dense.const_data_ptr<float>();
  float* to = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < dense.numel(); ++i) to[i] = 2 * from[i];
  return result;
}

void increment_(at::Tensor x) { x.add_(1); }

at::Tensor weighted(const at::Tensor& x, const at::Tensor& y, double weight) {
  return at::add(x, at::mul(y, at::Scalar(weight)));
}

TORCH_LIBRARY(trainium_user_test, m) {
  m.def("doubled(Tensor x) -> Tensor");
  m.def("increment_(Tensor(a!) x) -> ()");
  m.def("weighted(Tensor x, Tensor y, float weight) -> Tensor", &weighted);
  m.def("of_device(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(trainium_user_test, CPU, m) {
  m.impl("doubled", &doubled);
  m.impl("increment_", &increment_);
}
TORCH_LIBRARY_IMPL(trainium_user_test, PrivateUse1, m) {
  m.impl("of_device", [](const at::Tensor& x) { return at::mul(x, at::Scalar(3)); });
}
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    load_inline(
        "trainium_user_test",
        cpp_sources=SOURCE,
        is_python_module=False,
        no_implicit_headers=True,
        build_directory=str(tmp_path_factory.mktemp("user_operators")),
    )
    yield torch.ops.trainium_user_test


def test_cpu_kernel_runs_on_device_memory(ops: object) -> None:
    x = torch.randn(4, 6).to("neuron").t()
    result = ops.doubled(x)  # type: ignore[attr-defined]
    assert result.device == x.device
    assert torch.equal(result.cpu(), 2 * x.cpu())


def test_cpu_kernel_writes_the_device_tensor(ops: object) -> None:
    base = torch.zeros(2, 3, device="neuron:1")
    ops.increment_(base[:, 1])  # type: ignore[attr-defined]
    assert torch.equal(base.cpu(), torch.tensor([[0.0, 1, 0], [0, 1, 0]]))


def test_composite_operator_has_gradients(ops: object) -> None:
    x = torch.randn(3).to("neuron").requires_grad_()
    y = torch.randn(3).to("neuron").requires_grad_()
    ops.weighted(x, y, 0.5).sum().backward()  # type: ignore[attr-defined]
    assert torch.equal(x.grad.cpu(), torch.ones(3))  # type: ignore[union-attr]
    assert torch.equal(y.grad.cpu(), torch.full((3,), 0.5))  # type: ignore[union-attr]


def test_kernel_of_the_device_is_preferred(ops: object) -> None:
    x = torch.randn(3)
    assert torch.equal(ops.of_device(x.to("neuron")).cpu(), 3 * x)  # type: ignore[attr-defined]
