// What the processes of a case leave behind in groups and sessions of their own, where a signal to the group does not reach it: it
// is found by the case's mark.
#pragma once

#include <string>
#include <vector>

#include "harness/run/processes/case_mark.h"

namespace harness {

// Names of processes, each once and in order.
struct LeftBehind {
  std::vector<std::string> ended;
  std::vector<std::string> stayed;  // SIGKILL was sent, and they were still there at the end
};

// Kills all processes with this mark, and what they start meanwhile, until none is left; gives up after `within_ms`.
// REQUIRES: the case's own processes have been collected.
[[nodiscard]] LeftBehind end_left_behind(const CaseMark& mark, int within_ms = 10'000);

}  // namespace harness
