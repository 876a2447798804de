#include "harness/run/machine_state.h"

#include <fstream>
#include <optional>
#include <string>

#include "nsa/base/text.h"

namespace harness {
namespace {

// The number after `name` in a file of lines "name number ...".
std::optional<std::int64_t> read_counter(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(name, 0) != 0) continue;
    const std::size_t begin = line.find_first_of("0123456789", name.size());
    if (begin == std::string::npos) return std::nullopt;
    const std::size_t end = line.find_first_not_of("0123456789", begin);
    return nsa::parse_int(line.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return std::nullopt;
}

// Version 2 has one line "0::PATH"; version 1 one line per controller, "4:memory:PATH".
std::optional<std::int64_t> group_oom_kills() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    std::optional<std::int64_t> kills;
    if (controllers.empty())
      kills = read_counter("/sys/fs/cgroup" + path + "/memory.events", "oom_kill ");
    if (controllers == "memory") {
      kills = read_counter("/sys/fs/cgroup/memory" + path + "/memory.oom_control", "oom_kill ");
    }
    if (kills) return kills;
  }
  return std::nullopt;
}

}  // namespace

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
  if (const auto kills = group_oom_kills()) return *kills;
  return read_counter("/proc/vmstat", "oom_kill ").value_or(0);
}

}  // namespace harness
