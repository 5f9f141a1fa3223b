// Which virtual host clock a thread advances.
#pragma once

#include "runtime/runtime.h"

namespace torch_trainium {

// Lets the calling thread's clock follow the thread it works for: the one that
// called backward(), or that forked a task. To be called before the runtime is
// asked for something that takes host time.
void follow_calling_thread();

// The runtime, for what takes host time; raises as runtime_or_raise does.
runtime::Runtime& timed_runtime();

}  // namespace torch_trainium
