#include "harness/run/looks/stacks_file.h"

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "harness/run/looks/proc_look.h"

namespace harness {
namespace {

constexpr std::string_view kStacksFolder = "/python_stacks/";  // as stacks.py has it

}  // namespace

int stacks_signal() {
  return SIGRTMAX - 3;
}

std::string stacks_file_of(pid_t pid) {
  const std::uint64_t caught = status_bits(pid, "SigCgt:");
  if ((caught >> (stacks_signal() - 1) & 1U) == 0) return "";
  std::error_code error;
  std::filesystem::directory_iterator at("/proc/" + std::to_string(pid) + "/fd", error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code unread;
    const std::string target = std::filesystem::read_symlink(at->path(), unread).string();
    if (!unread && target.find(kStacksFolder) != std::string::npos) return at->path().string();
  }
  return "";
}

}  // namespace harness
