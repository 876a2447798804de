// A signal for exactly the process that was looked at: its number may be another process's by the time the look is over.
#pragma once

#include <csignal>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "harness/run/processes/spawn_process.h"

namespace harness {

// Made before the look. Kernels before 5.3 know processes by their numbers alone.
class Target {
 public:
  explicit Target(pid_t pid) : pid_(pid), fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0U))) {}

  void signal(int number) const {
    if (fd_.is_open()) {
      (void)syscall(SYS_pidfd_send_signal, fd_.get(), number, nullptr, 0U);
    } else {
      (void)kill(pid_, number);
    }
  }

 private:
  pid_t pid_;
  Fd fd_;
};

}  // namespace harness
