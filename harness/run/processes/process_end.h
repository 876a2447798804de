// A descriptor that becomes readable once a process has ended: a pidfd. Kernels before 5.3 (RHEL 8), and the seccomp filters
// of older container runtimes, have none; there a thread looks into /proc for the end. And how an end is told.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "harness/run/processes/spawn_process.h"

namespace harness {

// Closed where there is no such process, or nothing can watch it; errno tells why.
[[nodiscard]] Fd watch_end(pid_t pid);

// The same without a pidfd.
[[nodiscard]] Fd watch_end_in_proc(pid_t pid);

// Of what watch_end() gave; true where that is closed.
[[nodiscard]] bool has_ended(const Fd& watched);

// From the word that wait() gives.
[[nodiscard]] ExitStatus exit_status_of(int word);

// How a process ended that is no child of this one: from its pidfd (Linux 6.15 and newer), else from /proc as long as its parent
// has not waited for it. Nothing: neither tells.
[[nodiscard]] std::optional<ExitStatus> end_of_stranger(pid_t pid, int pidfd);

[[nodiscard]] bool is_good(const std::optional<ExitStatus>& end);
[[nodiscard]] std::string told_end(const std::optional<ExitStatus>& end);  // "exited with 1"

// As torchrun prints it: the number of a signal is below zero.
[[nodiscard]] ExitStatus as_torchrun_tells(int code);

}  // namespace harness
