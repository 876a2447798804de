// The system call that a thread waits in, as /proc/PID/task/TID/syscall tells it: its name, and whether it ends by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace harness {

struct WaitingCall {
  enum class Clock { relative, monotonic, realtime };

  std::string
      name;  // "futex", "system call 451" where the name is not known, "running" outside of calls
  bool timed = false;  // it has a time limit: the thread wakes up by itself
  // What the limit is: a number of milliseconds, or a timespec at an address of the process. Both 0: the line does not tell.
  std::int64_t limit_ms = 0;
  std::uint64_t limit_at = 0;
  Clock limit_clock = Clock::relative;  // of what the address holds
  std::uint64_t first = 0;              // argument: of reads and writes the descriptor
  std::uint64_t second = 0;
};

// Reads one line such as "230 0x0 0x0 0x7ffc3d157b70 0x0 0x0 0x0 0x7ffc3d157b58 0x7f1b76f2f503", "running" or "-1 0x7f 0x7f".
// Nothing when it is not of that form.
[[nodiscard]] std::optional<WaitingCall> parse_waiting_call(std::string_view line);

// Milliseconds until the limit of a call that process `pid` waits in, at most. Nothing where it has none or cannot be read.
[[nodiscard]] std::optional<std::int64_t> time_left_ms(pid_t pid, const WaitingCall& call);

// The one descriptor that `call` of process `pid` waits for. Nothing where it waits for none or for several, or where that cannot
// be read.
[[nodiscard]] std::optional<int> descriptor_of(pid_t pid, const WaitingCall& call);

}  // namespace harness
