#include "aten/host_kernel.h"

#include <ATen/Context.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/histc_cpu_dispatch.h>
#include <torch/library.h>

namespace torch_trainium {
namespace {

using at::Tensor;

// CUDA counts integers too, which the CPU kernel does not; libraries rely on it.
// Double holds them exactly up to 2^53.
Tensor histc(const Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  if (at::isIntegralType(self.scalar_type(), /*includeBool=*/false)) {
    return at::histc(self.to(at::kDouble), bins, min, max).to(self.scalar_type());
  }
  at::globalContext().alertNotDeterministic("aten::histc on neuron");
  return HostKernel<"aten::histc", &at::cpu::histc>::call(self, bins, min, max);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("histc", TORCH_FN(histc)); }

}  // namespace torch_trainium
