// Where an exception was thrown. The worker puts its own __cxa_throw before the one of the C++ runtime; it keeps the return
// addresses of the last throws and goes on to the true one. So also what LibTorch and Gloo throw on threads of their own is known.
#pragma once

#include <exception>
#include <string>
#include <vector>

namespace harness {

// Of an exception that is being handled, innermost first, as frame_text() writes them. Empty where it is not known: it was thrown
// too many throws ago.
[[nodiscard]] std::vector<std::string> frames_of(const std::exception& error);

// The type and the classes that it derives from, nearest first, as far as each has one direct base.
[[nodiscard]] std::vector<std::string> types_of(const std::exception& error);

}  // namespace harness
