// The stacks of all threads of this process, taken by this process: each thread is interrupted by a signal and writes its
// return addresses into a buffer of its own. A thread that does not answer within the deadline has no frames.
#pragma once

#include <vector>

#include "harness/evidence/rows.h"

namespace harness {

// Installs the signal handler. Call once, before other threads exist.
void prepare_stacks();

// Called on one thread at a time. Takes at most about 0.5 s.
[[nodiscard]] std::vector<ThreadStack> sample_stacks();

}  // namespace harness
