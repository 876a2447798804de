// The stacks of all threads of this process, taken by this process: each thread is interrupted by a signal and writes its
// return addresses into a buffer of its own. A thread that does not answer within the deadline has no frames.
#pragma once

#include <string>
#include <vector>

#include "harness/evidence/rows.h"

namespace harness {

// Installs the signal handler. Call once, before other threads exist.
void prepare_stacks();

// The name of a function or type as it was written; `name` where it is not a mangled one.
[[nodiscard]] std::string demangled(const char* name);

// A return address: "symbol+0x1c (library)", or "library+0x5a1c" where the symbol is not known: two places of one function are
// two frames.
[[nodiscard]] std::string frame_text(void* address);

// Called on one thread at a time. Takes at most about 0.5 s.
[[nodiscard]] std::vector<ThreadStack> sample_stacks();

}  // namespace harness
