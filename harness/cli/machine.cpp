#include "harness/cli/machine.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sched.h>
#include <set>
#include <sstream>
#include <string_view>
#include <sys/utsname.h>

#include "harness/cli/command.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

constexpr int kAskGpuMs = 20'000;  // the driver may have to be loaded first

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    const std::size_t first = part.find_first_not_of(" \t\r");
    const std::size_t last = part.find_last_not_of(" \t\r");
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last - first + 1));
  }
  return parts;
}

// The value of the first line "KEY ...: VALUE".
std::string value_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const std::vector<std::string> parts = split(line.substr(colon + 1), '\n');
    return parts.empty() ? "" : parts[0];
  }
  return "";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  // "QUOTA PERIOD" in microseconds, or "max PERIOD".
  const std::vector<std::string> limit = split(first_line("/sys/fs/cgroup/cpu.max"), ' ');
  if (limit.size() != 2) return cores;
  const auto quota = nsa::parse_double(limit[0]);
  const auto period = nsa::parse_double(limit[1]);
  if (!quota || !period || !(*period > 0.0)) return cores;
  return std::clamp(static_cast<int>(std::min(*quota / *period, 1e6) + 0.5), 1, cores);
}

std::int64_t memory_of_machine() {
  const std::vector<std::string> total = split(value_in("/proc/meminfo", "MemTotal"), ' ');
  const auto kib = total.empty() ? std::nullopt : nsa::parse_int(total[0]);
  std::int64_t bytes = kib.value_or(0) * 1024;
  const auto limit = nsa::parse_int(first_line("/sys/fs/cgroup/memory.max"));
  if (limit && *limit > 0) bytes = std::min(bytes, *limit);
  return bytes;
}

bool has_nvidia_driver() {
  return std::filesystem::exists("/proc/driver/nvidia/version");
}

void ask_gpus(Machine& machine) {
  if (!has_nvidia_driver()) return;
  const CommandResult answer = run_command({"nvidia-smi",
                                            "--query-gpu=name,memory.total,driver_version",
                                            "--format=csv,noheader,nounits"},
                                           kAskGpuMs);
  if (!answer.ok()) {
    machine.trouble = !answer.started    ? "nvidia-smi was not found"
                      : answer.timed_out ? "nvidia-smi did not answer in 20 s"
                                         : "nvidia-smi failed";
    return;
  }
  for (const std::string& line : split(answer.out, '\n')) {
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() != 3) continue;
    machine.gpus.push_back({fields[0], nsa::parse_int(fields[1]).value_or(0)});
    machine.driver = fields[2];
  }
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    const int left = visible_gpus(visible, static_cast<int>(machine.gpus.size()));
    machine.gpus.resize(static_cast<std::size_t>(left));
  }
}

}  // namespace

int visible_gpus(const std::string& visible, int present) {
  std::set<std::string> seen;
  for (const std::string& name : split(visible, ',')) {
    const auto index = nsa::parse_int(name);
    const bool known = index ? *index >= 0 && *index < present : name.starts_with("GPU-");
    if (!known || !seen.insert(name).second) break;
  }
  return std::min(static_cast<int>(seen.size()), present);
}

std::string visible_cards(const std::string& visible, const std::vector<int>& cards) {
  const std::vector<std::string> names = split(visible, ',');
  std::string left;
  for (const int card : cards) {
    const auto at = static_cast<std::size_t>(card);
    left += left.empty() ? "" : ",";
    left += at < names.size() ? names[at] : std::to_string(card);
  }
  return left;
}

Machine look_at_machine() {
  Machine machine;
  machine.cpu = value_in("/proc/cpuinfo", "model name");
  machine.cores = usable_cores();
  machine.memory_bytes = memory_of_machine();
  utsname system = {};
  if (uname(&system) == 0) machine.kernel = std::string(system.sysname) + " " + system.release;
  ask_gpus(machine);
  return machine;
}

std::vector<std::pair<std::string, std::string>> Machine::facts() const {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"cpu", cpu},
      {"cores", std::to_string(cores)},
      {"memory_bytes", std::to_string(memory_bytes)},
      {"kernel", kernel},
      {"gpus", std::to_string(gpus.size())}};
  for (std::size_t i = 0; i < gpus.size(); ++i)
    facts.emplace_back("gpu" + std::to_string(i), gpus[i].name);
  if (!driver.empty()) facts.emplace_back("driver", driver);
  if (!trouble.empty()) facts.emplace_back("gpu_trouble", trouble);
  return facts;
}

std::vector<std::string> gpu_processes() {
  std::vector<std::string> found;
  if (!has_nvidia_driver()) return found;
  const CommandResult answer = run_command({"nvidia-smi",
                                            "--query-compute-apps=pid,process_name,used_memory",
                                            "--format=csv,noheader,nounits"},
                                           kAskGpuMs);
  if (!answer.ok()) return found;
  for (const std::string& line : split(answer.out, '\n')) {
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() == 3)
      found.push_back(fields[0] + " " + fields[1] + " (" + fields[2] + " MiB)");
  }
  return found;
}

}  // namespace harness::cli
