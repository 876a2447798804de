// What verbs print and write in the same way.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace harness::cli {

// To stderr, with the program's name before it. One write a line.
void log_line(const std::string& line);

// The text without characters that steer a terminal.
[[nodiscard]] std::string without_controls(std::string text);

// "FAIL          ddp_onestep  12.3 s  reason", without characters that steer a terminal.
[[nodiscard]] std::string outcome_line(const std::string& outcome,
                                       const std::string& label,
                                       double seconds,
                                       const std::string& reason);

// Writes a file whole or not at all. Throws: nsa::Error.
void write_file(const std::string& path, const std::string& content);

// Name and what it judges of every check, in their order.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> check_about();

}  // namespace harness::cli
