// Tensors as the cost model sees them.
#pragma once

#include <c10/core/TensorImpl.h>

#include "timeline/operator_call.h"

namespace torch_trainium {

// The sizes stay the tensor's: the operand is valid while the tensor keeps them.
timeline::Operand operand_of(const c10::TensorImpl& tensor, bool is_written, int16_t device);
timeline::Access access_to(const c10::TensorImpl& tensor, bool is_written, bool is_on_host);

}  // namespace torch_trainium
