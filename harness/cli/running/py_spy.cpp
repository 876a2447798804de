#include "harness/cli/running/py_spy.h"

#include <sstream>

#include "harness/cli/command.h"

namespace harness::cli {

std::vector<std::string> frames_in_dump(const std::string& dump) {
  constexpr std::string_view kFrame = "    ";
  constexpr std::string_view kThread = "Thread ";
  std::istringstream lines(dump);
  std::vector<std::string> frames;
  bool is_main = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kThread)) {
      is_main = line.find("\"MainThread\"") != std::string::npos;
    } else if (is_main && line.starts_with(kFrame)) {
      frames.push_back(line.substr(kFrame.size()));
    }
  }
  return frames;
}

std::vector<std::string> python_frames(pid_t pid) {
  constexpr int kDeadlineMs = 3'000;
  const CommandResult dump =
      run_command({"py-spy", "dump", "--nonblocking", "--pid", std::to_string(pid)}, kDeadlineMs);
  return dump.ok() ? frames_in_dump(dump.out) : std::vector<std::string>{};
}

}  // namespace harness::cli
