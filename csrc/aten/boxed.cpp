#include "aten/boxed.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/determinism.h"
#include "aten/host_engine.h"
#include "aten/operator_traits.h"

namespace torch_trainium {
namespace {

using torch::jit::Stack;

constexpr int kNewResult = -1;

// What the boxed kernel needs to know of a schema, read once.
struct Signature {
  OperatorRecord& record;
  CpuOperands cpu_operands;
  NondeterminismCheck is_nondeterministic;
  bool is_foreach;  // and has a kernel that takes tensor by tensor
  size_t arguments;
  size_t returns;
  std::vector<size_t> tensors;        // arguments that hold tensors, or lists of them: operands
  std::vector<bool> is_written;       // per operand
  std::vector<int> returned_operand;  // per return: the operand it is, or kNewResult
  bool returns_values = false;        // numbers that the host waits for

  explicit Signature(const c10::OperatorHandle& op);
};

bool holds_tensors(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
      return holds_tensors(type->containedType(0));
    default:
      return false;
  }
}

std::string qualified_name(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

Signature::Signature(const c10::OperatorHandle& op)
    : record(operator_record(qualified_name(op))),
      cpu_operands(cpu_operands_of(record.name)),
      is_nondeterministic(nondeterminism_check(record.name)),
      is_foreach(record.name.rfind("aten::_foreach_", 0) == 0 &&
                 op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)),
      arguments(op.schema().arguments().size()),
      returns(op.schema().returns().size()) {
  const c10::FunctionSchema& schema = op.schema();
  for (size_t i = 0; i < arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (!holds_tensors(argument.type())) continue;
    tensors.push_back(i);
    is_written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
  }
  for (const c10::Argument& result : schema.returns()) {
    returns_values = returns_values || !holds_tensors(result.type());
    int operand = kNewResult;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!is_written[i]) continue;
      const c10::AliasInfo& written_to = *schema.arguments()[tensors[i]].alias_info();
      if (result.alias_info() != nullptr &&
          written_to.beforeSet() == result.alias_info()->beforeSet()) {
        operand = static_cast<int>(i);
      }
    }
    returned_operand.push_back(operand);
  }
}

// Whether some result shares memory with an operand that is not written.
bool returns_views(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) visit(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) visit(element.toTensor());
    }
  }
}

template <typename Map>
c10::IValue map_tensors(const c10::IValue& value, Map&& map) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    mapped.reserve(value.toTensorList().size());
    for (const at::Tensor& tensor : value.toTensorList()) mapped.push_back(map(tensor));
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      mapped.push_back(tensor ? std::make_optional(map(*tensor)) : std::nullopt);
    }
    return mapped;
  }
  return value;
}

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

void observe(const Signature& signature, c10::ArrayRef<c10::IValue> operands) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& operand : operands) {
    for_each_tensor(operand, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
  std::vector<const at::TensorBase*> pointers;
  for (const at::Tensor& tensor : tensors) pointers.push_back(&tensor);
  detail::observe(signature.record, pointers);
}

// Where to run: the device of the first operand that is on one.
c10::DeviceIndex device_of(c10::ArrayRef<c10::IValue> operands) {
  std::optional<c10::DeviceIndex> device;
  for (const c10::IValue& operand : operands) {
    for_each_tensor(operand, [&](const at::Tensor& tensor) {
      if (!device && tensor.defined() && tensor.device().type() == kNeuron) {
        device = tensor.device().index();
      }
    });
    if (device) return *device;
  }
  return current_device();
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

void run_boxed(const Signature& signature, const c10::OperatorHandle& op, Stack* stack) {
  const size_t first = stack->size() - signature.arguments;
  if (C10_UNLIKELY(signature.is_nondeterministic != nullptr) &&
      at::globalContext().deterministicAlgorithms() &&
      signature.is_nondeterministic(c10::ArrayRef<c10::IValue>(*stack).slice(first))) {
    at::globalContext().alertNotDeterministic(signature.record.name + " on neuron");
  }
  c10::SmallVector<c10::IValue, 6> operands;
  for (const size_t i : signature.tensors) operands.push_back(std::move((*stack)[first + i]));
  signature.record.calls.fetch_add(1, std::memory_order_relaxed);
  if (C10_UNLIKELY(operators_are_observed())) observe(signature, operands);

  const c10::DeviceIndex device = device_of(operands);
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
  call.run(
      [&] {
        if (C10_LIKELY(!call.has_composite_operands())) {
          op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
        } else {
          op.callBoxed(stack);  // sparse and nested kernels have keys of their own
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

// Carries its operator's signature, so that a call looks nothing up. Read at the
// first call: most of the two thousand operators are never called.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
    std::call_once(read_, [&] { signature_.emplace(op); });
    run_boxed(*signature_, op, stack);
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
  run_boxed(*signature, op, stack);
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
  // Factories and conversions decide on a device; their composites do it right.
  return has_operands && !returns_views(schema) && !takes(schema, c10::TypeKind::GeneratorType) &&
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
