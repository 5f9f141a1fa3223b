#include "aten/hbm_redirect.h"

#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/allocator.h"
#include "core/device.h"

namespace torch_trainium {
namespace {

thread_local HbmRedirect* active = nullptr;

// Memory that outlived its call, or was freed by another thread than the
// call's. Both are rare: kernels keep or hand over next to nothing.
struct Strays {
  std::mutex mutex;
  std::unordered_map<const void*, c10::DataPtr> kept;
  std::unordered_set<const void*> freed_early;
};
Strays& strays() {
  static auto* instance = new Strays;
  return *instance;
}

c10::DeleterFnPtr host_deleter = nullptr;

bool is_device_memory(const void* host_address) {
  if (!runtime::is_created() || runtime::is_in_bad_fork()) return false;
  const runtime::Runtime& runtime = runtime::get();
  return runtime.device_of(static_cast<const std::byte*>(host_address) - runtime.host_offset()) >=
         0;
}

}  // namespace

// PyTorch's raw allocations require that an allocation's context is its address,
// so the device allocation is found by address when it is freed or taken.
class HbmRedirectingAllocator final : public c10::Allocator {
 public:
  explicit HbmRedirectingAllocator(c10::Allocator* host) : host_(host) {
    host_deleter = host->raw_deleter();
  }

  c10::DataPtr allocate(size_t bytes) override {
    HbmRedirect* redirect = active;
    if (redirect == nullptr) return host_->allocate(bytes);
    c10::DataPtr data = allocate_device_memory(bytes, redirect->device_);
    if (data.get() == nullptr) return {nullptr, nullptr, &HbmRedirect::release, c10::kCPU};
    void* host_address = static_cast<std::byte*>(data.get()) + redirect->host_offset_;
    redirect->entries_.push_back({host_address, bytes, std::move(data)});
    return {host_address, host_address, &HbmRedirect::release, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &HbmRedirect::release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    host_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* host_;
};

namespace {

const bool installed = [] {
  constexpr uint8_t kPriority = 100;
  c10::SetCPUAllocator(new HbmRedirectingAllocator(c10::GetCPUAllocator()), kPriority);
  return true;
}();

}  // namespace

HbmRedirect::HbmRedirect(c10::DeviceIndex device, ptrdiff_t host_offset)
    : device_(device), host_offset_(host_offset), outer_(std::exchange(active, this)) {}

HbmRedirect::~HbmRedirect() {
  active = outer_;
  if (entries_.empty()) return;
  const std::lock_guard lock(strays().mutex);
  for (Entry& entry : entries_) {
    if (strays().freed_early.erase(entry.host_address) == 0) {
      strays().kept.emplace(entry.host_address, std::move(entry.device_data));
    }
  }
}

HostAllocations::HostAllocations() : suspended_(std::exchange(active, nullptr)) {}

HostAllocations::~HostAllocations() { active = suspended_; }

HbmRedirect::Entry* HbmRedirect::find(const void* host_address) {
  for (size_t step = 0; step < entries_.size(); ++step, ++cursor_) {
    if (cursor_ >= entries_.size()) cursor_ = 0;
    if (entries_[cursor_].host_address == host_address) return &entries_[cursor_];
  }
  return nullptr;
}

void HbmRedirect::remove(Entry* entry) {
  if (entry != &entries_.back()) *entry = std::move(entries_.back());
  entries_.pop_back();
}

c10::DataPtr HbmRedirect::take(const void* host_address) {
  Entry* entry = find(host_address);
  if (entry == nullptr) return {};
  c10::DataPtr data = std::move(entry->device_data);
  remove(entry);
  return data;
}

size_t HbmRedirect::bytes() const {
  size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.bytes;
  return bytes;
}

void HbmRedirect::release(void* host_address) {
  if (host_address == nullptr) return;
  for (HbmRedirect* redirect = active; redirect != nullptr; redirect = redirect->outer_) {
    if (Entry* entry = redirect->find(host_address)) {
      redirect->remove(entry);
      return;
    }
  }
  if (!is_device_memory(host_address)) {
    host_deleter(host_address);
    return;
  }
  c10::DataPtr freed;
  const std::lock_guard lock(strays().mutex);
  const auto kept = strays().kept.find(host_address);
  if (kept == strays().kept.end()) {
    strays().freed_early.insert(host_address);
  } else {
    freed = std::move(kept->second);
    strays().kept.erase(kept);
  }
}

}  // namespace torch_trainium
