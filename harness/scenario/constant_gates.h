// What the words of attention.gate stand for: the worker sets these gates, and the checks give them to the oracle.
#pragma once

#include <array>
#include <optional>
#include <string>

namespace harness {

// Gates (cmp, sel, win) of every token and head in place of the learned ones; none for "learned".
inline std::optional<std::array<double, 3>> constant_gates(const std::string& gate) {
  if (gate == "cmp") return std::array{1.0, 0.0, 0.0};
  if (gate == "sel") return std::array{0.0, 1.0, 0.0};
  if (gate == "win") return std::array{0.0, 0.0, 1.0};
  if (gate == "all") return std::array{1.0, 1.0, 1.0};
  return std::nullopt;
}

}  // namespace harness
