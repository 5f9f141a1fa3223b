#include "runtime/device_fault.h"

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>

namespace torch_trainium::runtime {
namespace {

std::byte* guarded_base = nullptr;
size_t guarded_bytes = 0;
size_t guarded_bytes_per_device = 0;
struct sigaction previous_action;

void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto* address = static_cast<std::byte*>(info->si_addr);
  if (address >= guarded_base && address < guarded_base + guarded_bytes) {
    const size_t offset = static_cast<size_t>(address - guarded_base);
    char message[160];
    const int length =
        snprintf(message, sizeof message,
                 "torch-trainium: host code accessed memory of neuron:%zu (device address %p). "
                 "Native stack:\n",
                 offset / guarded_bytes_per_device, info->si_addr);
    if (write(STDERR_FILENO, message, static_cast<size_t>(length)) == length) {
      void* frames[64];
      backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    }
  }
  // Returning repeats the access, which now reaches the handler that was there.
  sigaction(SIGSEGV, &previous_action, nullptr);
}

}  // namespace

void report_device_faults(std::byte* base, size_t bytes, size_t bytes_per_device) {
  guarded_base = base;
  guarded_bytes = bytes;
  guarded_bytes_per_device = bytes_per_device;
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads its library now: a signal handler must not
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_action);
}

}  // namespace torch_trainium::runtime
