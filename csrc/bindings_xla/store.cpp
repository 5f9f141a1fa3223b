#include "bindings_xla/store.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace torch_trainium::xla_cpu {
namespace {

std::atomic<uint64_t> stored_bytes{0};

int64_t bits_of(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_S16:
    case XLA_FFI_DataType_U16:
    case XLA_FFI_DataType_F16:
    case XLA_FFI_DataType_BF16:
      return 16;
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_U32:
    case XLA_FFI_DataType_F32:
      return 32;
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U64:
    case XLA_FFI_DataType_F64:
    case XLA_FFI_DataType_C64:
      return 64;
    case XLA_FFI_DataType_C128:
      return 128;
    default:
      return 8;
  }
}

struct Store {
  std::byte* to;
  const std::byte* from;
  size_t bytes;

  bool overwrites(const Store& other) const {
    return to < other.from + other.bytes && other.from < to + bytes;
  }
};

XLA_FFI_Error* store(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_Extension_Base* extension = frame->extension_start; extension != nullptr;
       extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata& metadata =
        *reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata.api_version.major_version = XLA_FFI_API_MAJOR;
    metadata.api_version.minor_version = XLA_FFI_API_MINOR;
    return nullptr;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return nullptr;
  const auto operand = [frame](int64_t i) -> const XLA_FFI_Buffer& {
    return *static_cast<const XLA_FFI_Buffer*>(frame->args.args[i]);
  };
  const auto* addresses = static_cast<const uint64_t*>(operand(0).data);
  std::vector<Store> stores;
  for (int64_t i = 1; i < frame->args.size; ++i) {
    const XLA_FFI_Buffer& value = operand(i);
    int64_t bits = bits_of(value.dtype);
    for (int64_t d = 0; d < value.rank; ++d) bits *= value.dims[d];
    stores.push_back({reinterpret_cast<std::byte*>(addresses[i - 1]),
                      static_cast<const std::byte*>(value.data), static_cast<size_t>(bits / 8)});
  }
  // A value may be a program input that an earlier store is about to overwrite.
  std::vector<std::unique_ptr<std::byte[]>> saved;
  for (size_t later = 1; later < stores.size(); ++later) {
    const bool lost = std::any_of(stores.begin(), stores.begin() + static_cast<ptrdiff_t>(later),
                                  [&](const Store& s) { return s.overwrites(stores[later]); });
    if (!lost) continue;
    saved.push_back(std::make_unique<std::byte[]>(stores[later].bytes));
    std::memcpy(saved.back().get(), stores[later].from, stores[later].bytes);
    stores[later].from = saved.back().get();
  }
  uint64_t bytes = 0;
  for (const Store& s : stores) {
    std::memmove(s.to, s.from, s.bytes);
    bytes += s.bytes;
  }
  stored_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return nullptr;
}

}  // namespace

void* store_handler() { return reinterpret_cast<void*>(&store); }

uint64_t bytes_stored() { return stored_bytes.load(std::memory_order_relaxed); }

}  // namespace torch_trainium::xla_cpu
