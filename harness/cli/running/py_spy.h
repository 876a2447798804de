// Stacks of a Python process that cannot be asked itself, from py-spy where it is installed and may attach.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace harness::cli {

// The main thread's frames, innermost first: "step (train.py:12)". Empty: no py-spy, no Python, or it may not attach. Waits three
// seconds at most. The process goes on meanwhile.
[[nodiscard]] std::vector<std::string> python_frames(pid_t pid);

// Of the text that `py-spy dump` prints.
[[nodiscard]] std::vector<std::string> frames_in_dump(const std::string& dump);

}  // namespace harness::cli
