// Runs a helper program (git, nvidia-smi) and takes what it prints. It always ends: by itself, or killed at the deadline.
#pragma once

#include <string>
#include <vector>

namespace harness::cli {

struct CommandResult {
  bool started = false;  // found and executable
  bool timed_out = false;
  int exit_code = -1;  // -1 when a signal ended it
  std::string out;     // stdout, cut at max_bytes

  [[nodiscard]] bool ok() const { return started && !timed_out && exit_code == 0; }
};

// argv[0] is looked up on PATH. stdin and stderr are /dev/null.
[[nodiscard]] CommandResult run_command(const std::vector<std::string>& argv,
                                        int timeout_ms = 10'000,
                                        std::size_t max_bytes = std::size_t{64} << 20);

}  // namespace harness::cli
