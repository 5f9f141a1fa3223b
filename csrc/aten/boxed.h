// The boxed kernel behind every operator without a kernel of its own.
#pragma once

namespace torch_trainium {

// Registers the boxed kernel for every operator that PyTorch implements for the
// CPU and that has no kernel for the device yet. Called once, after all other
// registrations.
void register_boxed_kernels();

}  // namespace torch_trainium
