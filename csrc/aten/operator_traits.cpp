#include "aten/operator_traits.h"

#include <algorithm>
#include <iterator>

namespace torch_trainium {
namespace {

constexpr std::string_view kTakesCpuScalars[] = {
#include "operators_with_cpu_scalars.inc"
};

// Lengths may be on the CPU, as on CUDA; nested sizes always are.
constexpr std::string_view kTakesCpuTensors[] = {
    "aten::_ctc_loss.Tensor",
    "aten::_ctc_loss_backward.Tensor",
    "aten::_nested_from_padded",
};

constexpr std::string_view kTakesCpuIndices[] = {
    "aten::_index_put_impl_", "aten::_unsafe_index.Tensor", "aten::_unsafe_index_put",
    "aten::index.Tensor",     "aten::index.Tensor_out",     "aten::index_put",
    "aten::index_put_",
};

constexpr std::string_view kStaysComposite[] = {
    // Copies and allocations, which must see the device.
    "aten::_lazy_clone",
    "aten::_to_copy",
    "aten::clone",
    "aten::copy",
    "aten::copy_",
    "aten::empty_like",
    "aten::lift",
    "aten::lift_fresh",
    "aten::lift_fresh_copy",
    "aten::new_empty",
    "aten::resize_as_",
    "aten::set_data",
    // Check that out= tensors are not leaves that need a gradient.
    "aten::split_copy.Tensor_out",
    "aten::split_with_sizes_copy.out",
    "aten::unbind_copy.int_out",
    // Needs no data.
    "aten::is_same_size",
    // Its batch sizes are a CPU tensor on every device.
    "aten::_pack_padded_sequence",
};

template <size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

CpuOperands cpu_operands_of(std::string_view name) {
  if (contains(kTakesCpuTensors, name)) return CpuOperands::kAny;
  if (contains(kTakesCpuIndices, name)) return CpuOperands::kScalarsAndIndices;
  const bool scalars =
      std::binary_search(std::begin(kTakesCpuScalars), std::end(kTakesCpuScalars), name);
  const bool ours = name.rfind("aten::", 0) == 0;
  return scalars || !ours ? CpuOperands::kScalars : CpuOperands::kNone;
}

bool stays_composite(std::string_view name) { return contains(kStaysComposite, name); }

}  // namespace torch_trainium
