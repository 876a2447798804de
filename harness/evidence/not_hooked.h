// Ranks of a command that was to be looked at without a line in its script (`run --watch`), and that have said nothing: the hook
// did not come in, or nothing was trained there. What other ranks say cannot be compared with them.
#pragma once

#include <set>

#include "harness/evidence/evidence.h"

namespace harness {

[[nodiscard]] inline std::set<int> not_hooked(const Evidence& evidence) {
  std::set<int> ranks;
  if (!evidence.the_case.scenario.command.watch) return ranks;
  for (int rank = 0; rank < evidence.ranks(); ++rank) ranks.insert(rank);
  for (const auto& row : evidence.hellos) ranks.erase(row.process);
  return ranks;
}

}  // namespace harness
