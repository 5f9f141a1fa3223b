#include "aten/host_engine.h"

#include <ATen/EmptyTensor.h>

#include "aten/call_description.h"
#include "core/host_time.h"

#include <array>
#include <atomic>
#include <utility>
#include <vector>

namespace torch_trainium {
namespace {

std::atomic<uint64_t> copied_result_count{0};

// Aliases ready for reuse on this thread.
constexpr size_t kMaxIdleAliases = 64;
thread_local std::vector<c10::intrusive_ptr<HostAlias>> idle_aliases;

c10::intrusive_ptr<HostAlias> take_alias() {
  if (idle_aliases.empty()) return c10::make_intrusive<HostAlias>();
  c10::intrusive_ptr<HostAlias> alias = std::move(idle_aliases.back());
  idle_aliases.pop_back();
  return alias;
}

}  // namespace

c10::DispatchKeySet keys_above_backend() {
  static const c10::DispatchKeySet keys =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
      c10::python_ks |
      c10::DispatchKeySet({c10::DispatchKey::Functionalize, c10::DispatchKey::PreDispatch,
                           c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                           c10::DispatchKey::FuncTorchDynamicLayerBackMode,
                           c10::DispatchKey::PythonDispatcher});
  return keys;
}

HostCall::HostCall(OperatorRecord& record, c10::DeviceIndex device, CpuOperands cpu_operands)
    : record_(record),
      runtime_(runtime_or_raise()),
      device_(device),
      cpu_operands_(cpu_operands),
      stream_(current_stream(device).id()),
      redirect_(device, runtime_.host_offset()),
      below_user_features_(c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
                           keys_above_backend()) {
  if (C10_UNLIKELY(at::hasCallbacks())) unprofiled_.emplace(false);
  follow_calling_thread();
}

HostCall::~HostCall() {
  for (CompositeLease& lease : composites_) lease.alias.reset();
  for (Lease& lease : leases_) {
    if (C10_LIKELY(lease.alias.use_count() == 1)) {
      lease.alias->unlink();
    } else {
      lease.alias->retain(*lease.source);
      lease.alias.reset();
    }
  }
  for (Lease& lease : leases_) {
    if (lease.alias == nullptr) continue;
    if (C10_UNLIKELY(!lease.alias->recycle())) {
      lease.alias->retain(*lease.source);
    } else if (idle_aliases.size() < kMaxIdleAliases) {
      idle_aliases.push_back(std::move(lease.alias));
    }
  }
}

// The lease that an object belongs to: the tensor lent, its alias, or the storage
// of either.
const HostCall::Lease* HostCall::find_lease(const void* object) const {
  if (C10_UNLIKELY(index_ != nullptr)) {
    const auto found = index_->find(object);
    return found == index_->end() ? nullptr : &leases_[found->second];
  }
  for (const Lease& lease : leases_) {
    for (const void* part : parts_of_lease(lease)) {
      if (part == object) return &lease;
    }
  }
  return nullptr;
}

std::array<const void*, 4> HostCall::parts_of_lease(const Lease& lease) {
  return {lease.source, lease.source->unsafe_storage().unsafeGetStorageImpl(), lease.alias.get(),
          lease.alias->alias_storage().get()};
}

void HostCall::add_lease(c10::TensorImpl* source, c10::intrusive_ptr<HostAlias> alias) {
  leases_.push_back({source, std::move(alias)});
  const auto enter = [this](size_t position) {
    for (const void* part : parts_of_lease(leases_[position])) index_->emplace(part, position);
  };
  if (C10_UNLIKELY(index_ != nullptr)) {
    enter(leases_.size() - 1);
  } else if (C10_UNLIKELY(leases_.size() == kLeasesToIndex)) {
    index_ = std::make_unique<std::unordered_map<const void*, size_t>>();
    for (size_t position = 0; position < leases_.size(); ++position) enter(position);
  }
}

void raise_foreign(const at::Tensor& tensor, c10::DeviceIndex device,
                   const OperatorRecord& record) {
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at least two devices, "
              "neuron:",
              static_cast<int>(device), " and ", tensor.device(), "! (when calling ", record.name,
              ")");
}

void HostCall::check_foreign(const at::Tensor& tensor) const {
  if (cpu_operands_ == CpuOperands::kAnyDevice) return;
  if (tensor.is_cpu() &&
      (cpu_operands_ == CpuOperands::kAny || cpu_operands_ == CpuOperands::kScalarsAndIndices ||
       (cpu_operands_ == CpuOperands::kScalars && tensor.dim() == 0))) {
    return;
  }
  raise_foreign(tensor, device_, record_);
}

at::Tensor HostCall::alias(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  c10::TensorImpl* source = tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(source->device_type() != kNeuron)) {
    check_foreign(tensor);
    const bool is_scalar = cpu_operands_ != CpuOperands::kAnyDevice && tensor.dim() == 0;
    operands_.push_back({source, /*is_written=*/false, timeline::kHostDevice, is_scalar});
    return tensor;
  }
  dtypes_.add_tensor(*source);
  if (C10_UNLIKELY(source->device().index() != device_)) check_foreign(tensor);
  if (C10_UNLIKELY(!source->has_storage() || source->layout() != c10::kStrided ||
                   source->key_set().has(c10::DispatchKey::NestedTensor))) {
    return alias_composite(tensor);
  }
  if (const Lease* lease = find_lease(source)) {
    operands_.push_back(
        {lease->alias.get(), /*is_written=*/false, source->device().index(), /*is_scalar=*/false});
    return at::Tensor(lease->alias);
  }
  const Lease* same_storage = find_lease(source->unsafe_storage().unsafeGetStorageImpl());
  c10::intrusive_ptr<HostAlias> alias = take_alias();
  alias->point_at(*source, runtime_.host_offset(),
                  same_storage == nullptr ? nullptr : &same_storage->alias->alias_storage());
  at::Tensor lent(alias);
  operands_.push_back(
      {alias.get(), /*is_written=*/false, source->device().index(), /*is_scalar=*/false});
  add_lease(source, std::move(alias));
  return lent;
}

at::Tensor HostCall::alias_on_device(const at::Tensor& tensor) {
  if (C10_UNLIKELY(tensor.defined() && tensor.device().type() != kNeuron))
    raise_foreign(tensor, device_, record_);
  return alias(tensor);
}

at::Tensor HostCall::alias_written(const at::Tensor& tensor) {
  const size_t first = operands_.size();
  at::Tensor lent =
      cpu_operands_ == CpuOperands::kAnyDevice ? alias(tensor) : alias_on_device(tensor);
  for (size_t i = first; i < operands_.size(); ++i) operands_[i].is_written = true;
  return lent;
}

void HostCall::find_fallback() {
  std::string reason = RefusedProgram::take(record_);
  if (reason.empty()) reason = dtypes_.reason(record_);
  if (reason.empty() && !composites_.empty()) {
    reason = "programs have no sparse and no nested tensors";
  }
  if (reason.empty()) return;
  refuse_fallback(record_, reason);
  fallback_ = std::make_unique<Fallback>(Fallback{std::move(reason), {}});
}

// A warning may run the user's code, whose tensors are not the device's.
void HostCall::note() {
  const HostAllocations on_the_host;
  std::vector<timeline::Operand> operands;
  const timeline::OperatorCall call = describe(operands);
  int64_t bytes = call.result_bytes;
  for (const timeline::Operand& operand : operands) bytes += operand.bytes();
  note_fallback(record_, fallback_->reason, bytes, fallback_->placement.cost.device_ps);
}

// Moving bytes needs no engine, whatever they stand for.
bool HostCall::is_computed_by_host() const {
  using timeline::CostClass;
  switch (record_.cost_class) {
    case CostClass::kFree:
    case CostClass::kFill:
    case CostClass::kHostRead:
    case CostClass::kTransfer:
      return false;
    case CostClass::kCopy:
      return !dtypes_.are_one();
    default:
      return true;
  }
}

timeline::OperatorCall HostCall::describe(std::vector<timeline::Operand>& operands) const {
  operands.clear();
  for (const Operand& operand : operands_) {
    if (operand.is_scalar) continue;
    operands.push_back(operand_of(*operand.tensor, operand.is_written, operand.device));
  }
  timeline::OperatorCall call{record_.cost_class, operands.data(),
                              static_cast<int>(operands.size()),
                              static_cast<int64_t>(redirect_.bytes())};
  if (C10_UNLIKELY(fallback_ != nullptr)) {
    if (is_computed_by_host()) call.cost_class = timeline::CostClass::kCpuFallback;
    call.placement = &fallback_->placement;
  }
  return call;
}

void HostCall::add_accesses(std::vector<timeline::Access>& accesses) const {
  for (const Operand& operand : operands_) {
    accesses.push_back(
        access_to(*operand.tensor, operand.is_written, operand.device == timeline::kHostDevice));
  }
  redirect_.for_each([&](const void* host_address, size_t bytes) {
    accesses.push_back(timeline::access_to_bytes(static_cast<const std::byte*>(host_address), bytes,
                                                 /*is_written=*/true));
  });
}

at::Tensor HostCall::adopt(at::Tensor result) {
  if (!result.defined() || result.device().type() == kNeuron) return result;
  if (result.is_cpu() && result.layout() == c10::kStrided && result.has_storage() &&
      !result.key_set().has(c10::DispatchKey::NestedTensor)) {
    return adopt_strided(std::move(result));
  }
  return adopt_composite(std::move(result));
}

at::Tensor HostCall::adopt_strided(at::Tensor result) {
  const c10::Device device(kNeuron, device_);
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (const Lease* lease = find_lease(impl)) {
    return at::Tensor(
        c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(lease->source));
  }
  if (const Lease* lease = find_lease(storage)) {
    at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(lease->source->unsafe_storage()),
        lease->source->key_set(), impl->dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(impl->sizes(), impl->strides(),
                                                      impl->storage_offset());
    return view;
  }
  if (storage->device().type() != kNeuron) {  // else an earlier result has the same storage
    // A result that the kernel keeps as well stays the kernel's.
    c10::DataPtr data;
    if (C10_LIKELY(result.use_count() == 1)) data = redirect_.take(storage->data());
    const bool is_ours =
        data.get() != nullptr || (storage->nbytes() == 0 && result.use_count() == 1);
    if (C10_UNLIKELY(!is_ours)) {
      copied_result_count.fetch_add(1, std::memory_order_relaxed);
      return adopt_strided(result.clone());
    }
    data.unsafe_set_device(device);
    // The bytes now belong to `data`: the host address is dropped, not freed.
    storage->set_data_ptr(std::move(data)).release_context();
    storage->set_allocator(device_allocator());
  }
  impl->_change_backend_component_keys(device);
  impl->set_storage_keep_dtype(c10::Storage(impl->unsafe_storage()));  // takes the storage's device
  return result;
}

void* HostCall::host_address(const c10::StorageImpl& storage) const {
  auto* address = static_cast<std::byte*>(const_cast<void*>(storage.data()));  // NOLINT
  return address == nullptr ? nullptr : address + runtime_.host_offset();
}

void HostCall::write_back(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  const Lease* lease = find_lease(tensor.unsafeGetTensorImpl());
  if (lease == nullptr) {
    write_back_composite(tensor);
    return;
  }
  c10::TensorImpl& source = *lease->source;
  const HostAlias& alias = *lease->alias;
  c10::StorageImpl& lent = *alias.alias_storage();
  c10::StorageImpl& owner = *source.unsafe_storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(lent.data() != host_address(owner))) {  // a kernel replaced the bytes
    c10::DataPtr data = redirect_.take(lent.data());
    data.unsafe_set_device(c10::Device(kNeuron, device_));
    owner.set_data_ptr_noswap(std::move(data));
    owner.set_nbytes(lent.nbytes());
    // Other aliases may share the lent storage: it goes on lending the new bytes.
    lent.set_data_ptr(c10::DataPtr(host_address(owner), c10::kCPU)).release_context();
  }
  if (C10_UNLIKELY(alias.sizes() != source.sizes() || alias.strides() != source.strides() ||
                   alias.storage_offset() != source.storage_offset())) {
    source.set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
  }
  if (C10_UNLIKELY(alias.is_conj() != source.is_conj())) source._set_conj(alias.is_conj());
  if (C10_UNLIKELY(alias.is_neg() != source.is_neg())) source._set_neg(alias.is_neg());
}

at::Tensor HostCall::alias_composite(const at::Tensor& tensor) {
  for (const CompositeLease& lease : composites_) {
    if (lease.source.is_same(tensor)) return lease.alias;
  }
  CompositeParts parts = parts_of(tensor);
  CompositeParts aliases;
  for (const at::Tensor& part : parts) aliases.push_back(alias(part));
  composites_.push_back({tensor, assemble(tensor, aliases), std::move(parts)});
  return composites_.back().alias;
}

at::Tensor HostCall::adopt_composite(at::Tensor result) {
  for (const CompositeLease& lease : composites_) {
    if (lease.alias.is_same(result)) return lease.source;
  }
  CompositeParts parts = result.use_count() == 1 ? take_parts(result) : parts_of(result);
  for (at::Tensor& part : parts) part = adopt(std::move(part));
  return assemble(result, parts);
}

void HostCall::write_back_composite(const at::Tensor& tensor) {
  for (const CompositeLease& lease : composites_) {
    if (!lease.source.is_same(tensor)) continue;
    for (const at::Tensor& part : lease.parts) write_back(part);
    if (tensor.is_nested()) return;  // nothing but its buffer ever changes
    CompositeParts parts = take_parts(lease.alias);
    for (at::Tensor& part : parts) part = adopt(std::move(part));
    reassemble(tensor, lease.alias, parts);
    return;
  }
}

uint64_t copied_results() { return copied_result_count.load(std::memory_order_relaxed); }

}  // namespace torch_trainium
