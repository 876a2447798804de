// What the program cannot do: bad input, a missing file, a failed system call.
// Thrown where it is found, caught around one case and in main only. Never thrown for what the system under test did:
// that is evidence.
#pragma once

#include <stdexcept>
#include <string>

namespace nsa {

// A place in an input (not in this program's source). `line` counts from 1; 0 means the file as a whole.
struct Location {
  std::string file;
  int line = 0;

  [[nodiscard]] std::string text() const {
    return line > 0 ? file + ":" + std::to_string(line) : file;
  }
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  Error(const Location& where, const std::string& message)
      : std::runtime_error(where.file.empty() ? message : where.text() + ": " + message) {}
};

}  // namespace nsa
