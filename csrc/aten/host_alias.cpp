#include "aten/host_alias.h"

#include <c10/core/CPUAllocator.h>

#include <utility>

#include "core/device.h"

namespace torch_trainium {
namespace {

c10::intrusive_ptr<c10::StorageImpl> empty_cpu_storage() {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                               c10::DataPtr(nullptr, c10::kCPU),
                                               c10::GetCPUAllocator(), /*resizable=*/true);
}

}  // namespace

HostAlias::HostAlias()
    : TensorImpl(c10::Storage(empty_cpu_storage()), c10::DispatchKeySet(c10::DispatchKey::CPU),
                 caffe2::TypeMeta::Make<uint8_t>()) {
  own_storage_ =
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage_.unsafeGetStorageImpl());
  storage_ = c10::Storage();
}

void HostAlias::point_at(const c10::TensorImpl& source, ptrdiff_t host_offset,
                         const c10::intrusive_ptr<c10::StorageImpl>* shared) {
  copy_tensor_metadata(&source, this, version_counter_, /*allow_tensor_metadata_change=*/true);
  if (shared != nullptr) {
    alias_storage_ = *shared;
  } else {
    alias_storage_ = own_storage_;
    c10::StorageImpl& lent = *source.unsafe_storage().unsafeGetStorageImpl();
    // mutable_data materializes a copy-on-write storage.
    auto* address = static_cast<std::byte*>(lent.mutable_data());
    if (address != nullptr) address += host_offset;
    own_storage_->set_data_ptr_noswap(c10::DataPtr(address, c10::kCPU));
    own_storage_->set_nbytes(lent.nbytes());
  }
  storage_ = c10::Storage(alias_storage_);
  key_set_ = key_set_.remove(c10::DispatchKey::AutocastPrivateUse1)
                 .remove_backend(c10::BackendComponent::PrivateUse1Bit)
                 .add(c10::DispatchKey::CPU);
  device_opt_ = c10::Device(c10::kCPU);
}

void HostAlias::retain(const c10::TensorImpl& source) {
  if (own_storage_ == nullptr) return;
  using Reference = c10::intrusive_ptr<c10::StorageImpl>;
  auto* reference =
      new Reference(Reference::reclaim_copy(source.unsafe_storage().unsafeGetStorageImpl()));
  own_storage_->set_data_ptr_noswap({own_storage_->mutable_data(), reference,
                                     [](void* held) { delete static_cast<Reference*>(held); },
                                     c10::kCPU});
  own_storage_.reset();
}

void HostAlias::unlink() {
  storage_ = c10::Storage();
  alias_storage_.reset();
}

bool HostAlias::recycle() {
  if (own_storage_ == nullptr || own_storage_.use_count() != 1) return false;
  if (own_storage_->data_ptr().get_context() != nullptr) {
    own_storage_->set_data_ptr_noswap(c10::DataPtr(nullptr, c10::kCPU));
  }
  return autograd_meta() == nullptr && extra_meta_ == nullptr &&
         pyobj_slot()->load_pyobj() == nullptr;
}

}  // namespace torch_trainium
