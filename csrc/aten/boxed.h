// The boxed kernel behind every operator without a kernel of its own.
#pragma once

#include <ATen/core/stack.h>

#include "aten/signature.h"

namespace torch_trainium {

// Runs an operator on the host engine: takes its arguments off the stack and
// leaves its results.
void run_on_host(const Signature& signature, const c10::OperatorHandle& op,
                 torch::jit::Stack* stack);

// Registers the boxed kernel for every operator that PyTorch implements for the
// CPU and that has no kernel for the device yet. Called once, after all other
// registrations.
void register_boxed_kernels();

}  // namespace torch_trainium
