#include "bindings/call_arguments.h"

#include <cstdint>
#include <unordered_map>

namespace torch_trainium {
namespace {

// Programs find an operand's first element by its distance from such an address.
constexpr uintptr_t kAlignmentBytes = 64;
// From here on tensors are found by hash: optimizers take thousands.
constexpr size_t kTensorsToIndex = 16;

class Reader {
 public:
  explicit Reader(CallArguments& read) : read_(read) {}

  bool add(const c10::IValue& value, bool takes_numbers) {
    if (value.isTensor()) return add_tensor(value.toTensor(), takes_numbers);
    if (value.isNone()) return tag('-');
    if (value.isInt()) return add_number('i', value.toInt(), takes_numbers);
    if (value.isBool()) return add_number('b', value.toBool(), takes_numbers);
    if (value.isDouble()) return add_number('f', value.toDouble(), takes_numbers);
    if (value.isComplexDouble()) return add_number('c', value.toComplexDouble(), takes_numbers);
    if (value.isList()) {
      const c10::ArrayRef<c10::IValue> elements = value.toListRef();
      tag('[');
      bytes(elements.size());
      bool all = true;
      for (const c10::IValue& element : elements) all = all && add(element, takes_numbers);
      return all;
    }
    if (value.isString()) {
      tag('s');
      bytes(value.toStringRef().size());
      read_.key += value.toStringRef();
      return true;
    }
    if (value.isDevice()) {
      tag('d');
      bytes(value.toDevice().type());
      bytes(value.toDevice().index());
      return true;
    }
    if (value.isGenerator()) {
      read_.generator = value.toGenerator();
      return tag('-');
    }
    return false;
  }

 private:
  bool tag(char kind) {
    read_.key += kind;
    return true;
  }

  template <typename T>
  void bytes(const T& plain) {
    read_.key.append(reinterpret_cast<const char*>(&plain), sizeof plain);
  }

  template <typename T>
  bool add_number(char kind, T number, bool takes_numbers) {
    tag(kind);
    if (takes_numbers) {
      read_.numbers.emplace_back(number);
    } else {
      bytes(number);
    }
    return true;
  }

  bool add_tensor(const at::Tensor& tensor, bool takes_numbers) {
    if (!tensor.defined()) return tag('-');
    if (takes_numbers && tensor.is_cpu() && tensor.dim() == 0) {
      tag('n');
      bytes(tensor.scalar_type());
      read_.numbers.push_back(tensor.item());
      return true;
    }
    const size_t position = position_of(tensor);
    tag(position < read_.tensors.size() ? 'a' : 'T');
    if (position < read_.tensors.size()) {
      bytes(position);
      return true;
    }
    bytes(tensor.scalar_type());
    bytes(tensor.device().type());
    bytes(tensor.dim());
    for (const int64_t size : tensor.sizes()) bytes(size);
    for (const int64_t stride : tensor.strides()) bytes(stride);
    if (tensor.numel() > 0) {
      bytes(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kAlignmentBytes);
    }
    read_.tensors.push_back(tensor);
    return true;
  }

  // Where an equal tensor is already, else one past the last.
  size_t position_of(const at::Tensor& tensor) {
    const size_t known = read_.tensors.size();
    if (known < kTensorsToIndex) {
      for (size_t i = 0; i < known; ++i) {
        if (read_.tensors[i].is_same(tensor)) return i;
      }
      return known;
    }
    while (positions_.size() < known) {
      positions_.emplace(read_.tensors[positions_.size()].unsafeGetTensorImpl(), positions_.size());
    }
    const auto found = positions_.find(tensor.unsafeGetTensorImpl());
    return found == positions_.end() ? known : found->second;
  }

  CallArguments& read_;
  std::unordered_map<const c10::TensorImpl*, size_t> positions_;
};

}  // namespace

bool read_arguments(c10::ArrayRef<c10::IValue> arguments, const std::vector<bool>& takes_numbers,
                    CallArguments& read) {
  Reader reader(read);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!reader.add(arguments[i], takes_numbers[i])) return false;
  }
  return true;
}

}  // namespace torch_trainium
