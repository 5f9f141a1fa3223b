// Compiled eager: operators run as programs of their own, as on hardware, instead
// of as CPU kernels on the host engine.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>

namespace torch_trainium {

// One call that has a program.
class PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  // Takes the operator's arguments off the stack and leaves its results.
  virtual void run(torch::jit::Stack* stack) = 0;
};

// The programs of one operator, for all shapes.
class OperatorPrograms {
 public:
  virtual ~OperatorPrograms() = default;
  // Finds or compiles the program for the last arguments on the stack; null where
  // there can be none, and `refusal` says why.
  virtual std::unique_ptr<PreparedCall> prepare(const torch::jit::Stack& stack,
                                                std::string& refusal) = 0;
};

// Who writes programs; lives above this layer.
class ProgramProvider {
 public:
  virtual ~ProgramProvider() = default;
  virtual std::unique_ptr<OperatorPrograms> programs_of(const c10::OperatorHandle& op) = 0;
};

// From now on every operator that computes runs through `provider`; null for the
// host engine. Views, allocation and copies to and from the host stay what they are.
void set_program_provider(std::shared_ptr<ProgramProvider> provider);

}  // namespace torch_trainium
