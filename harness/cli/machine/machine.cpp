#include "harness/cli/machine/machine.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <string_view>
#include <sys/utsname.h>

#include "harness/cli/command.h"
#include "harness/run/looks/machine_state.h"
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

void ask_gpus(Machine& machine) {
  if (!has_nvidia_driver()) return;
  const CommandResult answer = run_command(
      {"nvidia-smi", "--query-gpu=" + nsa::join(kCardFields, ","), "--format=csv,noheader,nounits"},
      kAskGpuMs);
  if (!answer.ok()) {
    machine.trouble = !answer.started    ? "nvidia-smi was not found"
                      : answer.timed_out ? "nvidia-smi did not answer in 20 s"
                                         : "nvidia-smi failed";
    return;
  }
  const CommandResult list = run_command({"nvidia-smi", "-L"}, kAskGpuMs);
  const Cards found = read_cards(answer.out, list.ok() ? list.out : "");
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  machine.driver = found.driver;
  machine.gpus = visible != nullptr ? visible_cards(found.cards, visible)
                                    : visible_cards(found.cards, std::nullopt);
}

}  // namespace

bool has_nvidia_driver() {
  std::error_code error;
  return std::filesystem::exists("/proc/driver/nvidia/version", error);
}

Machine look_at_machine() {
  Machine machine;
  machine.cpu = value_in("/proc/cpuinfo", "model name");
  machine.cores = usable_cores();
  machine.memory_bytes = usable_memory_bytes();
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
