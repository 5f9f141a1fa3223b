#include "core/out_of_memory.h"

#include <sstream>

#include "core/device.h"

namespace torch_trainium {
namespace {

using c10::CachingAllocator::format_size;

std::string describe_usage(const HeapUsage& usage) {
  std::ostringstream text;
  const size_t unallocated = usage.totals.reserved_bytes - usage.totals.allocated_bytes;
  text << "PyTorch has reserved " << format_size(usage.totals.reserved_bytes) << ": "
       << format_size(usage.totals.allocated_bytes) << " is allocated and "
       << format_size(unallocated) << " is cached but unallocated (largest free block "
       << format_size(usage.largest_free_block_bytes) << ").";
  if (usage.private_pool_bytes > 0) {
    text << " Memory pools of the user hold " << format_size(usage.private_pool_bytes)
         << " of the reserved memory.";
  }
  return text.str();
}

}  // namespace

void raise_out_of_memory(const MemoryRequest& request, DeviceHeap& heap,
                         runtime::AllocationStatus status) {
  const HeapUsage usage = heap.usage();
  const auto device = c10::Device(kNeuron, heap.device());
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(request.block_bytes),
                                   usage.totals.allocated_bytes, usage.totals.reserved_bytes,
                                   device);
  if (status == runtime::AllocationStatus::kHostMemoryExhausted) {
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     "neuron: this machine ran out of host memory. Tried to allocate ",
                     format_size(request.requested_bytes), " on ", device,
                     ", which has room for it, but the emulated device memory lives in the host's ",
                     "memory and that is exhausted. ", describe_usage(usage),
                     " Free host memory, use a smaller model or batch, or set "
                     "TORCH_TRAINIUM_HBM_BYTES to bound what the emulated device may hold.");
  }
  const runtime::MemoryInfo memory = runtime_or_raise().memory_info(heap.device());
  const double fraction = heap.memory_fraction();
  std::ostringstream limit;
  if (fraction < 1.0) {
    limit << " This process may reserve "
          << format_size(static_cast<size_t>(fraction * static_cast<double>(memory.total_bytes)))
          << " of it (set_per_process_memory_fraction).";
  }
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, "neuron out of memory. Tried to allocate ",
      format_size(request.requested_bytes), ". ", device, " has a total capacity of ",
      format_size(memory.total_bytes), " of which ", format_size(memory.free_bytes), " is free.",
      limit.str(), " ", describe_usage(usage),
      " If the unallocated memory is large, it is fragmented: try setting PYTORCH_ALLOC_CONF to "
      "max_split_size_mb:<MiB> or garbage_collection_threshold:<fraction>, or call "
      "torch.neuron.empty_cache(). torch.neuron.memory_summary() shows what holds the memory. "
      "TORCH_TRAINIUM_HBM_BYTES sets the capacity of an emulated device.");
}

void raise_absurd_request(size_t bytes) {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "neuron out of memory. Tried to allocate ", bytes,
                   " bytes, more than any device can hold. A negative size was passed, or a size "
                   "computation overflowed.");
}

}  // namespace torch_trainium
