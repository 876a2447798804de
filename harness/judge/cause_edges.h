// What can lead to what: a graph over kinds of findings, as data. The roles that follow from it are given in find_cause.h.
#pragma once

#include <span>
#include <string_view>

#include "harness/judge/ties.h"

namespace harness {

// A finding that `cause` describes can lead to one that `effect` describes, where `tie` ties them. Both are patterns (patterns.h).
struct Edge {
  std::string_view cause;
  std::string_view effect;
  Tie tie;
};

[[nodiscard]] std::span<const Edge> all_edges();

}  // namespace harness
