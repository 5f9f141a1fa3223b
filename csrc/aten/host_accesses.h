// Shows the stream sanitizer which CPU tensors the host itself uses.
#pragma once

namespace torch_trainium {

// Watches every operator that PyTorch runs, on all threads. Not for several at once.
void watch_host_accesses();
void unwatch_host_accesses();

}  // namespace torch_trainium
