// Ctrl-C and TERM set a flag that whoever waits looks at. A second one changes nothing: every wait has a deadline.
#pragma once

#include <atomic>

namespace harness::cli {

// The number of the signal that asked to stop, 0 before.
[[nodiscard]] std::atomic<int>& interrupted();

// SIGINT, SIGTERM and SIGHUP set interrupted(); SIGPIPE is ignored: whoever read the log may leave, the run goes on.
void catch_signals();

}  // namespace harness::cli
