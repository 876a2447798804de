// The file that Python's faulthandler writes to in a process of a command (python/nsa_harness/stacks.py): where its threads stand,
// when the signal comes and when a fatal one ends the process.
#pragma once

#include <string>
#include <sys/types.h>

namespace harness {

[[nodiscard]] int stacks_signal();
// /proc/PID/fd/N, since the file has no name any more; "" where faulthandler is not armed.
[[nodiscard]] std::string stacks_file_of(pid_t pid);

}  // namespace harness
