// The system call that a thread waits in, as /proc/PID/task/TID/syscall tells it: its name, and whether it ends by itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace harness {

struct WaitingCall {
  std::string
      name;  // "futex", "system call 451" where the name is not known, "running" outside of calls
  bool timed = false;  // it has a time limit: the thread wakes up by itself
};

// Reads one line such as "230 0x0 0x0 0x7ffc3d157b70 0x0 0x0 0x0 0x7ffc3d157b58 0x7f1b76f2f503", "running" or "-1 0x7f 0x7f".
// Nothing when it is not of that form.
[[nodiscard]] std::optional<WaitingCall> parse_waiting_call(std::string_view line);

}  // namespace harness
