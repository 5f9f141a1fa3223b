#include "aten/host_accesses.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/call_description.h"
#include "core/operator_names.h"
#include "core/stream_sanitizer.h"
#include "runtime/runtime.h"
#include "timeline/operator_classes.h"

namespace torch_trainium {
namespace {

at::CallbackHandle watcher = at::INVALID_CALLBACK_HANDLE;

// Whether each argument of an operator that touches CPU memory is written.
using WrittenArguments = std::vector<bool>;

// Composite operators touch nothing themselves, except these: the first is one on any
// device, the second is the last that numpy() and tolist() call before they look.
bool touches_memory(const std::string& name, const c10::OperatorHandle& op) {
  if (name == "aten::copy_" || name == "aten::resolve_conj") return true;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
         timeline::cost_class_of(name) != timeline::CostClass::kFree;
}

std::optional<WrittenArguments> read_schema(const std::string& name, const std::string& overload) {
  const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!op || !touches_memory(overload.empty() ? name : name + "." + overload, *op)) return {};
  WrittenArguments written;
  for (const c10::Argument& argument : op->schema().arguments()) {
    written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
  }
  return written;
}

const std::optional<WrittenArguments>& written_arguments(const std::string& name,
                                                         const std::string& overload) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_map<std::string, std::optional<WrittenArguments>>;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace(name + "." + overload);
  if (is_new) entry->second = read_schema(name, overload);
  return entry->second;
}

template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) for_each_tensor(element, visit);
  }
}

bool uses_device(c10::ArrayRef<const c10::IValue> arguments) {
  bool found = false;
  for (const c10::IValue& argument : arguments) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      found = found || (tensor.defined() && tensor.is_privateuseone());
    });
  }
  return found;
}

void show(const at::RecordFunction& call) {
  const auto arguments = call.inputs();
  if (uses_device(arguments)) return;  // a device kernel says itself what it uses
  const std::string name = call.name();
  const std::string overload = call.overload_name();
  const auto& written = written_arguments(name, overload);
  if (!written) return;
  const uint32_t id = operator_id(overload.empty() ? name : name + "." + overload);
  for (size_t i = 0; i < arguments.size() && i < written->size(); ++i) {
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != c10::kStrided ||
          tensor.is_nested()) {
        return;
      }
      StreamSanitizer::instance().host_uses(
          access_to(*tensor.unsafeGetTensorImpl(), (*written)[i], /*is_on_host=*/true), id);
    });
  }
}

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& call) {
  // A forked child has no device, and a copy of locks in any state.
  if (StreamSanitizer::instance().watches_host() && !runtime::is_in_bad_fork()) show(call);
  return nullptr;
}

}  // namespace

void watch_host_accesses() {
  watcher = at::addGlobalCallback(at::RecordFunctionCallback(on_operator)
                                      .needsInputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}

void unwatch_host_accesses() { at::removeCallback(watcher); }

}  // namespace torch_trainium
