// What verbs print and write in the same way.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/finding.h"

namespace harness::cli {

// To stderr, with the program's name before it, without secrets. One write a line.
void log_line(const std::string& line);

// The text without characters that steer a terminal.
[[nodiscard]] std::string without_controls(const std::string& text);

// "FAIL          ddp_onestep  12.3 s  reason", without secrets and characters that steer a terminal.
[[nodiscard]] std::string outcome_line(const std::string& outcome,
                                       const std::string& label,
                                       double seconds,
                                       const std::string& reason);

// "12.34 MB"
[[nodiscard]] std::string megabytes(std::int64_t bytes);

// FAIL, HANG, SLOW, CRASH, OOM, XPASS and ERROR.
[[nodiscard]] bool is_failure(Outcome outcome);

// The line, its first word in colour where `out` is a terminal that shows them (NO_COLOR, TERM=dumb: none).
void print_outcome(std::ostream& out,
                   Outcome outcome,
                   const std::string& label,
                   double seconds,
                   const std::string& reason);

// Name and what it judges of every check, in their order.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> check_about();

}  // namespace harness::cli
