#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <cstring>

#include "core/allocator.h"
#include "core/device.h"
#include "core/generator.h"
#include "core/host_allocator.h"

namespace torch_trainium {
namespace {

class NeuronHooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex device) const override {
    return runtime::is_created() && device >= 0 && device < device_count();
  }
  void init() const override { runtime_or_raise(); }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex previous = current_device();
    set_device(device);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchangeDevice(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(resolve_device(device));
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return create_generator(resolve_device(device));
  }
  at::Device getDeviceFromPtr(void* data) const override {
    const int device = runtime_or_raise().device_of(data);
    TORCH_CHECK(device >= 0, "The pointer ", data, " is not neuron device memory");
    return {kNeuron, static_cast<c10::DeviceIndex>(device)};
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned_host_pointer(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_host_allocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
    c10::DataPtr data = allocate_device_memory(bytes, storage.device().index());
    const size_t kept = std::min(bytes, storage.nbytes());
    if (kept > 0) device_allocator()->copy_data(data.get(), storage.data(), kept);
    storage.set_data_ptr_noswap(std::move(data));
    storage.set_nbytes(bytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new NeuronHooks);
  return true;
}();

}  // namespace
}  // namespace torch_trainium
