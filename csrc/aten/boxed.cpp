#include "aten/boxed.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/host_engine.h"
#include "aten/operator_traits.h"
#include "aten/signature.h"

namespace torch_trainium {
namespace {

using torch::jit::Stack;

// Turns the results in `value` into device tensors. Takes the value apart, since
// a result can be adopted only while nobody else holds it.
c10::IValue adopt_results(HostCall& call, c10::IValue value) {
  if (value.isTensor()) return call.adopt(std::move(value).toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> results = std::move(value).toTensorList();
  c10::List<at::Tensor> adopted;
  adopted.reserve(results.size());
  for (size_t i = 0; i < results.size(); ++i) adopted.push_back(call.adopt(results.extract(i)));
  return adopted;
}

bool all_on_device(c10::ArrayRef<c10::IValue> operands, c10::DeviceIndex device) {
  bool all = true;
  for (const c10::IValue& operand : operands) {
    for_each_tensor(operand, [&](const at::Tensor& tensor) {
      all = all && (tensor.dim() == 0 || tensor.device() == c10::Device(kNeuron, device));
    });
  }
  return all;
}

}  // namespace

void run_on_host(const Signature& signature, const c10::OperatorHandle& op, Stack* stack) {
  const size_t first = stack->size() - signature.arguments;
  alert_if_nondeterministic(signature, c10::ArrayRef<c10::IValue>(*stack).slice(first));
  c10::SmallVector<c10::IValue, 6> operands;
  for (const size_t i : signature.tensors) operands.push_back(std::move((*stack)[first + i]));
  note_boxed_call(signature, operands);

  const c10::DeviceIndex device = device_of_operands(operands);
  if (C10_UNLIKELY(signature.is_foreach) && !all_on_device(operands, device)) {
    // As on CUDA: one tensor after the other, each on its own device.
    for (size_t i = 0; i < operands.size(); ++i) {
      (*stack)[first + signature.tensors[i]] = std::move(operands[i]);
    }
    op.redispatchBoxed(c10::DispatchKeySet(), stack);  // the composite kernel
    return;
  }
  HostCall call(signature.record, device, signature.cpu_operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool indexes = signature.cpu_operands == CpuOperands::kScalarsAndIndices;
    const bool on_device = indexes && i == 0;
    const bool scalar_or_on_device = indexes && i > 1;
    (*stack)[first + signature.tensors[i]] =
        map_tensors(operands[i], [&](const at::Tensor& tensor) {
          if (signature.is_written[i]) return call.alias_written(tensor);
          return on_device || (scalar_or_on_device && tensor.defined() && tensor.dim() > 0)
                     ? call.alias_on_device(tensor)
                     : call.alias(tensor);
        });
  }
  const auto arguments = c10::ArrayRef<c10::IValue>(*stack).slice(first);
  if (const auto dtype = signature.dtype_in(arguments)) call.add_dtype(*dtype);
  if (const auto* use = signature.use_in(arguments)) call.set_use(*use);
  call.run(
      [&] {
        if (C10_LIKELY(!call.has_composite_operands())) {
          op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
        } else {
          op.callBoxed(stack);  // sparse and nested kernels have keys of their own
        }
        for (size_t i = 0; i < signature.returns; ++i) {
          if (signature.returned_operand[i] != kNewResult) continue;
          for_each_tensor((*stack)[stack->size() - signature.returns + i],
                          [&](const at::Tensor& result) { call.add_result(result); });
        }
      },
      signature.returns_values);

  for (size_t i = 0; i < operands.size(); ++i) {
    if (!signature.is_written[i]) continue;
    for_each_tensor(operands[i], [&](const at::Tensor& tensor) {
      call.write_back(tensor);
      // Autograd counts writes to a tensor argument itself, to a list of them not.
      if (signature.is_foreach) tensor.unsafeGetTensorImpl()->bump_version();
    });
  }
  const size_t first_result = stack->size() - signature.returns;
  for (size_t i = 0; i < signature.returns; ++i) {
    c10::IValue& result = (*stack)[first_result + i];
    const int input = signature.returned_operand[i];
    result = input == kNewResult ? adopt_results(call, std::move(result))
                                 : operands[static_cast<size_t>(input)];
  }
}

namespace {

// Carries its operator's signature, so that a call looks nothing up. Read at the
// first call: most of the two thousand operators are never called.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
    std::call_once(read_, [&] { signature_.emplace(op); });
    run_on_host(*signature_, op, stack);
  }

 private:
  std::once_flag read_;
  std::optional<const Signature> signature_;
};

// Operators registered after the package was loaded, and layouts that only a
// few operators support.
void boxed_fallback(const c10::OperatorHandle& op, Stack* stack) {
  static std::mutex mutex;
  static auto& signatures =
      *new std::unordered_map<c10::OperatorName, std::unique_ptr<const Signature>>;
  const Signature* signature = nullptr;
  {
    const std::lock_guard lock(mutex);
    std::unique_ptr<const Signature>& known = signatures[op.operator_name()];
    if (known == nullptr) known = std::make_unique<const Signature>(op);
    signature = known.get();
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!returns_views(op.schema()), "'", signature->record.name,
                              "' returns a view and has no kernel for the neuron device");
  run_on_host(*signature, op, stack);
}

bool takes(const c10::FunctionSchema& schema, c10::TypeKind kind) {
  for (const c10::Argument& argument : schema.arguments()) {
    c10::TypePtr type = argument.type();
    if (type->kind() == c10::TypeKind::OptionalType) type = type->containedType(0);
    if (type->kind() == kind) return true;
  }
  return false;
}

// A key of the device, and the keys of the host kernels that stand in for its own.
struct KernelKeys {
  c10::DispatchKey device;
  c10::SmallVector<c10::DispatchKey, 3> host;
};

// Whether the device has no kernel where the host has one.
bool lacks_kernel(const c10::OperatorHandle& op, const KernelKeys& keys) {
  return std::any_of(keys.host.begin(), keys.host.end(),
                     [&](c10::DispatchKey key) { return op.hasKernelForDispatchKey(key); }) &&
         !op.hasKernelForDispatchKey(keys.device);
}

bool may_run_boxed(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  bool has_operands = false;
  for (const c10::Argument& argument : schema.arguments()) {
    has_operands = has_operands || holds_tensors(argument.type());
  }
  // Views in place change a tensor's sizes and strides and nothing in memory, which may not even be
  // there: AOTAutograd calls them on wrappers. Factories and conversions decide on a device. The
  // composites of all these do it right.
  return has_operands && !returns_views(schema) && !op.hasTag(at::Tag::inplace_view) &&
         !takes(schema, c10::TypeKind::GeneratorType) &&
         !takes(schema, c10::TypeKind::DeviceObjType) &&
         !takes(schema, c10::TypeKind::StorageType) &&
         !takes(schema, c10::TypeKind::StreamObjType) && !stays_composite(qualified_name(op));
}

}  // namespace

void register_boxed_kernels() {
  using Key = c10::DispatchKey;
  // Sparse and nested tensors have composite kernels where nothing else is said.
  const KernelKeys all_keys[] = {
      {Key::PrivateUse1,
       {Key::CPU, Key::CompositeExplicitAutograd, Key::CompositeExplicitAutogradNonFunctional}},
      {Key::SparsePrivateUse1, {Key::SparseCPU}},
      {Key::SparseCsrPrivateUse1, {Key::SparseCsrCPU}},
      {Key::NestedTensorPrivateUse1, {Key::NestedTensorCPU}},
  };
  // Libraries unregister their kernels when they die; these stay.
  std::vector<torch::Library*> libraries;
  for (const KernelKeys& keys : all_keys) {
    libraries.push_back(
        new torch::Library(torch::Library::IMPL, "aten", keys.device, __FILE__, __LINE__));
  }
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !may_run_boxed(*op)) continue;
    for (size_t i = 0; i < libraries.size(); ++i) {
      if (!lacks_kernel(*op, all_keys[i])) continue;
      libraries[i]->impl(qualified_name(*op).c_str(),
                         torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>()));
    }
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

}  // namespace torch_trainium
