#include "aten/composite_layout.h"

#include "aten/host_engine.h"

namespace torch_trainium {

at::Tensor alias_composite(HostCall& /*call*/, const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "layout ", tensor.layout());
}

at::Tensor adopt_composite(HostCall& /*call*/, const at::Tensor& result) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "layout ", result.layout());
}

}  // namespace torch_trainium
