// Operators for which torch.use_deterministic_algorithms(True) warns or raises.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <string_view>

namespace torch_trainium {

// Whether an overload is nondeterministic for given arguments; null for one that
// never is. The set is CUDA's, as documented at torch.use_deterministic_algorithms:
// a program checked on the emulator must not meet its first alert on a device
// that adds in any order.
using NondeterminismCheck = bool (*)(c10::ArrayRef<c10::IValue> arguments);
NondeterminismCheck nondeterminism_check(std::string_view qualified_name);

}  // namespace torch_trainium
