// What the tests of launched ranks share: a launcher made of a shell, and the process beside a rank.
#pragma once

#include <csignal>
#include <string>

#include "tests/fakes/where.h"
#include "tests/run/run_support.h"

namespace harness::test {

// Starts {ranks} agents in the background, waits for all of them, and ends with 0. `before`: a shell command in front.
inline RunnerOptions launched_options(const std::string& folder,
                                      const std::map<std::string, std::string>& moods,
                                      const std::string& before = "true") {
  RunnerOptions options = patient_options(folder, moods);
  options.launch.words = {"/bin/sh",
                          "-c",
                          before + R"(; world={ranks}; rank=0
while [ "$rank" -lt "$world" ]; do RANK=$rank WORLD_SIZE=$world "$@" & rank=$((rank + 1)); done; wait)",
                          "sh"};
  options.launch.program = fakes::programs() + "/fake_agent";
  options.launch.environment = {"ASAN_OPTIONS=detect_leaks=0", "PATH=/usr/bin:/bin"};
  return options;
}

// The agent of a rank whose start was just recorded.
inline pid_t parent_of(std::int64_t pid) {
  const auto state = read_process_state(static_cast<pid_t>(pid));
  return state ? state->parent : 0;
}

}  // namespace harness::test
