#include "aten/compiled_eager.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aten/call_description.h"
#include "aten/fallback.h"
#include "aten/host_engine.h"
#include "aten/signature.h"
#include "core/device.h"
#include "core/host_time.h"

namespace torch_trainium {
namespace {

using torch::jit::Stack;

// An operator's call for the cost model.
class ProgramCall final : public timeline::CallSource {
 public:
  ProgramCall(const Signature& signature, c10::ArrayRef<c10::IValue> operands, const Stack& stack)
      : signature_(signature), operands_(operands), stack_(stack) {}

  timeline::OperatorCall describe(std::vector<timeline::Operand>& described) const override {
    described.clear();
    for (size_t i = 0; i < operands_.size(); ++i) {
      for_each_tensor(operands_[i], [&](const at::Tensor& tensor) {
        if (!tensor.defined()) return;
        if (!tensor.is_privateuseone()) return;  // a number
        described.push_back(operand_of(*tensor.unsafeGetTensorImpl(), signature_.is_written[i],
                                       tensor.device().index()));
      });
    }
    int64_t result_bytes = 0;
    const size_t first = stack_.size() - signature_.returns;
    for (size_t i = 0; i < signature_.returns; ++i) {
      if (signature_.returned_operand[i] != kNewResult) continue;
      for_each_tensor(stack_[first + i], [&](const at::Tensor& tensor) {
        if (tensor.defined()) result_bytes += static_cast<int64_t>(tensor.nbytes());
      });
    }
    return {signature_.record.cost_class, described.data(), static_cast<int>(described.size()),
            result_bytes};
  }

  void add_accesses(std::vector<timeline::Access>& accesses) const override {
    for (size_t i = 0; i < operands_.size(); ++i) {
      for_each_tensor(operands_[i], [&](const at::Tensor& tensor) {
        if (!tensor.defined()) return;
        accesses.push_back(access_to(*tensor.unsafeGetTensorImpl(), signature_.is_written[i],
                                     !tensor.is_privateuseone()));
      });
    }
    for (size_t i = stack_.size() - signature_.returns; i < stack_.size(); ++i) {
      for_each_tensor(stack_[i], [&](const at::Tensor& tensor) {
        if (!tensor.defined()) return;
        accesses.push_back(access_to(*tensor.unsafeGetTensorImpl(), /*is_written=*/true,
                                     /*is_on_host=*/false));
      });
    }
  }

 private:
  const Signature& signature_;
  c10::ArrayRef<c10::IValue> operands_;
  const Stack& stack_;
};

// The same elements in memory: no conjugate or negative bit, and no tensor of zeros that has none.
at::Tensor materialized(const at::Tensor& tensor) {
  at::Tensor plain = at::empty_strided(
      tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()), tensor.options());
  plain.copy_(tensor);
  return plain;
}

bool is_materialized(const at::Tensor& tensor) {
  return !tensor.defined() || !(tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor());
}

// Stands in for operands whose bits a program would not see. The copies count as such.
class Materialized {
 public:
  c10::IValue take(const c10::IValue& operand, bool is_written) {
    return map_tensors(operand, [&](const at::Tensor& tensor) {
      if (C10_LIKELY(is_materialized(tensor))) return tensor;
      at::Tensor plain = materialized(tensor);
      if (is_written) written_.push_back({tensor, plain});
      return plain;
    });
  }

  // Brings what was written back to the operands, and these among the results.
  void write_back(Stack& stack, size_t first_result) const {
    for (const Pair& pair : written_) {
      at::Tensor operand = pair.operand;
      operand.copy_(pair.plain);
      for (size_t i = first_result; i < stack.size(); ++i) {
        stack[i] = map_tensors(stack[i], [&](const at::Tensor& result) {
          return result.is_same(pair.plain) ? operand : result;
        });
      }
    }
  }

 private:
  struct Pair {
    at::Tensor operand;
    at::Tensor plain;
  };
  std::vector<Pair> written_;
};

// A program's operands are on its device. Zero-dim CPU tensors are numbers to it, and
// CPU tensors that the operator takes besides, such as indices, are brought there.
c10::IValue on_device(const Signature& signature, const c10::IValue& operand, bool is_written,
                      c10::DeviceIndex device) {
  return map_tensors(operand, [&](const at::Tensor& tensor) {
    const c10::Device target(kNeuron, device);
    if (!tensor.defined() || tensor.device() == target) return tensor;
    const bool takes_numbers = signature.cpu_operands != CpuOperands::kNone;
    const bool takes_tensors = signature.cpu_operands == CpuOperands::kScalarsAndIndices ||
                               signature.cpu_operands == CpuOperands::kAny;
    if (is_written || !tensor.is_cpu()) raise_foreign(tensor, device, signature.record);
    if (tensor.dim() == 0 && takes_numbers) return tensor;
    if (!takes_tensors) raise_foreign(tensor, device, signature.record);
    return tensor.to(target);
  });
}

// Whether the host computes a call in either mode.
bool falls_back(const Signature& signature, c10::ArrayRef<c10::IValue> operands,
                c10::ArrayRef<c10::IValue> arguments) {
  CallDtypes dtypes;
  for (const c10::IValue& operand : operands) {
    for_each_tensor(operand, [&](const at::Tensor& tensor) {
      if (tensor.defined() && tensor.is_privateuseone()) {
        dtypes.add_tensor(*tensor.unsafeGetTensorImpl());
      }
    });
  }
  if (const auto dtype = signature.dtype_in(arguments)) dtypes.add(*dtype);
  if (const auto* use = signature.use_in(arguments)) dtypes.set_use(*use);
  return C10_UNLIKELY(dtypes.fall_back(signature.record)) &&
         !dtypes.reason(signature.record).empty();
}

// Filling memory twice with one number is fine.
constexpr std::array<std::string_view, 3> kFills = {"aten::fill_.Scalar", "aten::fill_.Tensor",
                                                    "aten::zero_"};

// What a program writes must be memory of its own: elements apart from each other, and either the
// very elements that it reads or none of them. The CPU's kernels refuse the same.
void expect_own_memory(const Signature& signature, c10::ArrayRef<c10::IValue> operands) {
  if (signature.is_foreach) return;
  for (const std::string_view fill : kFills) {
    if (signature.record.name == fill) return;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!signature.is_written[i] || !operands[i].isTensor() || !operands[i].toTensor().defined()) {
      continue;
    }
    const at::Tensor& written = operands[i].toTensor();
    at::assert_no_internal_overlap(written);
    for (size_t j = 0; j < operands.size(); ++j) {
      if (signature.is_written[j] || !operands[j].isTensor()) continue;
      const at::Tensor& read = operands[j].toTensor();
      if (read.defined() && read.device() == written.device()) {
        at::assert_no_partial_overlap(written, read);
      }
    }
  }
}

class CompiledKernel final : public c10::OperatorKernel {
 public:
  // `host_kernel` is what it stands in for, and calls where there is no program.
  CompiledKernel(std::shared_ptr<ProgramProvider> provider, c10::SafeKernelFunction host_kernel)
      : provider_(std::move(provider)), host_kernel_(std::move(host_kernel)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    std::call_once(read_, [&] {
      signature_.emplace(op);
      programs_ = provider_->programs_of(op);
    });
    std::string refusal;
    if (run(stack, refusal)) return;
    if (refusal.empty()) {
      host_kernel_.callBoxed(op, keys, stack);  // which knows that it falls back
      return;
    }
    refuse_fallback(signature_->record, refusal);
    const RefusedProgram refused(signature_->record, std::move(refusal));
    host_kernel_.callBoxed(op, keys, stack);
  }

 private:
  bool run(Stack* stack, std::string& refusal) {
    const Signature& signature = *signature_;
    const size_t first = stack->size() - signature.arguments;
    const auto arguments = c10::ArrayRef<c10::IValue>(*stack).slice(first);
    c10::SmallVector<c10::IValue, 6> operands;
    for (const size_t i : signature.tensors) operands.push_back(arguments[i]);
    if (falls_back(signature, operands, arguments)) return false;
    alert_if_nondeterministic(signature, arguments);
    const c10::DeviceIndex device = device_of_operands(operands);
    runtime::Runtime& runtime = timed_runtime();
    const c10::DeviceGuard guard(c10::Device(kNeuron, device));
    for (size_t i = 0; i < operands.size(); ++i) {
      operands[i] = on_device(signature, operands[i], signature.is_written[i], device);
    }
    expect_own_memory(signature, operands);
    const c10::impl::ForceDispatchKeyGuard below_user_features(
        c10::DispatchKeySet(c10::DispatchKey::BackendSelect), keys_above_backend());
    std::optional<at::RecordFunctionGuard> unprofiled;
    if (C10_UNLIKELY(at::hasCallbacks())) unprofiled.emplace(false);
    Materialized materialized;
    c10::SmallVector<c10::IValue, 6> taken;
    for (size_t i = 0; i < operands.size(); ++i) {
      taken.push_back(materialized.take(operands[i], signature.is_written[i]));
      (*stack)[first + signature.tensors[i]] = taken.back();
    }
    const std::unique_ptr<PreparedCall> prepared = programs_->prepare(*stack, refusal);
    if (prepared == nullptr) {
      for (size_t i = 0; i < operands.size(); ++i) {
        (*stack)[first + signature.tensors[i]] = operands[i];
      }
      return false;
    }
    operands = std::move(taken);
    note_boxed_call(signature, operands);
    const ProgramCall call(signature, operands, *stack);
    auto body = [&] {
      prepared->run(stack);
      check_results(*stack);
    };
    runtime.submit({signature.record.work_kind, device, current_stream(device).id(),
                    signature.record.id, &call, /*host_waits=*/false,
                    [](void* context) { (*static_cast<decltype(body)*>(context))(); }, &body});
    materialized.write_back(*stack, stack->size() - signature.returns);
    return true;
  }

  // Results may have a dtype that neither operands nor arguments name: a quotient of integers has
  // the default dtype.
  void check_results(const Stack& stack) const {
    CallDtypes results;
    for (size_t i = stack.size() - signature_->returns; i < stack.size(); ++i) {
      for_each_tensor(stack[i], [&](const at::Tensor& result) {
        if (result.defined()) results.add(result.scalar_type());
      });
    }
    if (C10_LIKELY(!results.fall_back(signature_->record))) return;
    const std::string reason = results.reason(signature_->record);
    if (reason.empty()) return;
    refuse_fallback(signature_->record, reason);
    note_fallback(signature_->record, reason, /*bytes=*/0, /*device_ps=*/0);
  }

  const std::shared_ptr<ProgramProvider> provider_;
  const c10::SafeKernelFunction host_kernel_;
  std::once_flag read_;
  std::optional<const Signature> signature_;
  std::unique_ptr<OperatorPrograms> programs_;
};

// What has kernels of its own in either mode: storage, transfers, and reads by the host.
constexpr std::array<std::string_view, 13> kNeverPrograms = {
    "aten::copy_",
    "aten::_copy_from",
    "aten::_copy_from_and_resize",
    "aten::record_stream",
    "aten::resize_",
    "aten::_local_scalar_dense",
    "aten::set_",
    "aten::resize_as_",
    "aten::_has_compatible_shallow_copy_type",
    "aten::_to_copy",
    "aten::set_data",
    "aten::_fused_sdp_choice",
    "aten::_linalg_check_errors",
};

bool may_be_program(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  if (name.name.rfind("aten::", 0) != 0 || returns_views(op.schema())) return false;
  if (op.hasTag(at::Tag::inplace_view)) return false;  // changes where the elements are sought
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return false;
  for (const std::string_view never : kNeverPrograms) {
    if (name.name == never) return false;
  }
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (holds_tensors(argument.type())) return true;
  }
  return false;
}

// PyTorch warns where a kernel replaces another, which is what is meant here.
class Quiet final : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

void set_program_provider(std::shared_ptr<ProgramProvider> provider) {
  static std::mutex mutex;
  // Never destroyed: its kernels hold Python objects, which outlive Python otherwise.
  static auto& library = *new std::unique_ptr<torch::Library>;
  const std::lock_guard lock(mutex);
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard no_warnings(&quiet);
  library.reset();  // the dispatcher goes back to the kernels below
  if (provider == nullptr) return;
  library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                             c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !may_be_program(*op)) continue;
    auto kernel = std::make_unique<CompiledKernel>(
        provider, op->getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1));
    library->impl(qualified_name(*op).c_str(),
                  torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }
}

}  // namespace torch_trainium
