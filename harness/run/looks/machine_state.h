// What the machine itself says: its load before a case, its memory, and whether the kernel killed a process for memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/evidence/rows.h"

namespace harness {

// machine.load_1min, machine.memory_available_bytes; what cannot be read is left out.
[[nodiscard]] std::vector<Fact> machine_facts();

// How often the OOM killer has struck in this control group (or, where the group does not tell, on this machine). Only the
// difference between two readings means anything; 0 where nothing tells.
[[nodiscard]] std::int64_t oom_kills();

// What the processes of this control group may use together: all of the machine's memory, or the group's limit.
[[nodiscard]] std::int64_t usable_memory_bytes();

// Who is asked about memory; a test answers itself.
struct MemoryWitness {
  std::function<std::int64_t()> kills = oom_kills;
  std::function<std::int64_t()> usable_bytes = usable_memory_bytes;
};

// Whom the kernel killed for memory while a process lived that ended by SIGKILL.
enum class MemoryKill { none, this_case, somebody };
// `held_bytes`: the largest resident sets of all processes of its case, added up.
[[nodiscard]] MemoryKill memory_kill(std::int64_t kills_counted,
                                     std::int64_t held_bytes,
                                     std::int64_t usable_bytes);

}  // namespace harness
