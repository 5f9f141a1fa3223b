// A CPU tensor over the bytes of a device tensor, reused from call to call.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

namespace torch_trainium {

class HostAlias final : public c10::TensorImpl {
 public:
  HostAlias();

  // Takes over the metadata of `source`. Its bytes are read at the source's
  // address plus `host_offset`; `shared`, if given, is the alias storage already
  // made for the source's storage in this call, so that overlap checks see it.
  void point_at(const c10::TensorImpl& source, ptrdiff_t host_offset,
                const c10::intrusive_ptr<c10::StorageImpl>* shared);

  const c10::intrusive_ptr<c10::StorageImpl>& alias_storage() const { return alias_storage_; }

  // For an alias that a kernel keeps beyond the call: its bytes now keep the
  // source's storage alive, and nobody else uses its storage again.
  void retain(const c10::TensorImpl& source);

  // Ends the lease. All aliases of a call are unlinked before one is recycled,
  // for they may share a storage.
  void unlink();

  // Prepares for reuse. False if a kernel kept the storage, or left something on
  // the tensor that forbids using it again.
  bool recycle();

 private:
  c10::intrusive_ptr<c10::StorageImpl> alias_storage_;  // what storage_ points to while lent
  c10::intrusive_ptr<c10::StorageImpl> own_storage_;    // kept for reuse
};

}  // namespace torch_trainium
