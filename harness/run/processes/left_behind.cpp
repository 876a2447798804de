#include "harness/run/processes/left_behind.h"

#include <csignal>
#include <filesystem>
#include <set>
#include <unistd.h>

#include "harness/run/clock.h"
#include "harness/run/looks/proc_look.h"

namespace harness {
namespace {

constexpr std::int64_t kEndMs = 2'000;  // one that SIGKILL does not end is in the kernel's hands
constexpr int kRoundUs = 5'000;

bool has_mark(pid_t pid, const std::string& mark) {
  const std::string environment = '\0' + proc_file(pid, "environ") + '\0';
  return environment.find('\0' + mark + '\0') != std::string::npos;
}

}  // namespace

std::string case_mark(const std::string& folder) {
  return "NSA_HARNESS_CASE_FOLDER=" + std::filesystem::absolute(folder).string();
}

std::vector<std::string> end_left_behind(const std::string& mark) {
  std::set<std::string> names;
  const std::int64_t until_ms = monotonic_ms() + kEndMs;
  for (bool any = true; any && monotonic_ms() < until_ms;) {
    any = false;
    for (const auto& [pid, state] : all_processes()) {
      if (pid == getpid() || state.state == 'Z' || !has_mark(pid, mark)) continue;
      any = true;
      names.insert(state.name);
      kill(pid, SIGKILL);
    }
    if (any) usleep(kRoundUs);
  }
  return {names.begin(), names.end()};
}

}  // namespace harness
