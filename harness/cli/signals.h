// Ctrl-C and TERM set a flag that whoever waits looks at. A second one changes nothing: every wait has a deadline.
#pragma once

#include <atomic>
#include <cstdint>

namespace harness::cli {

// The number of the signal that asked to stop, 0 before.
[[nodiscard]] std::atomic<int>& interrupted();

// SIGINT, SIGTERM and SIGHUP set interrupted(). One that is ignored by then stays so: who starts a night with nohup means it.
void catch_signals();

// How often SIGQUIT has asked who stands where. It is caught from the first call on.
[[nodiscard]] std::atomic<int>& asked_to_tell();

// SIGUSR1, SIGUSR2, SIGCONT and SIGWINCH that came and are to be passed on to the command, as bits 1 << number; whoever does so
// takes them out. They are caught from the first call on.
[[nodiscard]] std::atomic<std::uint64_t>& to_pass_on();

// A pipe that nobody reads and a file that may not grow are errors of a write, which say what could not be written.
void survive_failed_writes();

}  // namespace harness::cli
