#include "harness/run/looks/machine_state.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "harness/run/looks/control_group.h"

namespace harness {

std::vector<Fact> machine_facts() {
  std::vector<Fact> facts;
  std::ifstream load("/proc/loadavg");
  std::string one_minute;
  if (load >> one_minute) facts.push_back({"machine.load_1min", one_minute});
  if (const auto kib = read_counter("/proc/meminfo", "MemAvailable:")) {
    facts.push_back({"machine.memory_available_bytes", std::to_string(*kib * 1024)});
  }
  return facts;
}

std::int64_t oom_kills() {
  if (const auto kills = ControlGroup().oom_kills()) return *kills;
  return read_counter("/proc/vmstat", "oom_kill ").value_or(0);
}

std::int64_t usable_memory_bytes() {
  const std::int64_t machine = read_counter("/proc/meminfo", "MemTotal:").value_or(0) * 1024;
  const auto limit = ControlGroup().memory_limit();
  return limit ? std::min(machine, *limit) : machine;
}

// Memory runs out because of what fills it. Where the processes of a case held more than half of it together, nobody else
// can have held as much, and of theirs it is this one that was killed. Where they held less, the kill that was counted may
// well be that of another case beside this one, or of any other process: the counter names nobody, and the kernel's log is
// not everybody's to read.
MemoryKill memory_kill(std::int64_t kills_counted,
                       std::int64_t held_bytes,
                       std::int64_t usable_bytes) {
  if (kills_counted <= 0) return MemoryKill::none;
  return held_bytes > usable_bytes / 2 ? MemoryKill::this_case : MemoryKill::somebody;
}

}  // namespace harness
