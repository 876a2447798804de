// What the machine itself says: its load before a case, and whether the kernel killed a process for memory.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/evidence/rows.h"

namespace harness {

// machine.load_1min, machine.memory_available_bytes; what cannot be read is left out.
[[nodiscard]] std::vector<Fact> machine_facts();

// How often the OOM killer has struck in this control group (or, where the group does not tell, on this machine). Only the
// difference between two readings means anything; 0 where nothing tells.
[[nodiscard]] std::int64_t oom_kills();

}  // namespace harness
