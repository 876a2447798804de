// Ranks of a command that left their peers.
#pragma once

#include <set>

#include "harness/evidence/evidence.h"

namespace harness::checks {

// All ranks that ended well, and before each of `alone`: ranks whose communication failed. Of a command it is known only that a
// rank exited with 0; one that did so while a peer still talked to it is the first to look at.
[[nodiscard]] std::set<int> leavers(const Evidence& evidence, const std::set<int>& alone);

}  // namespace harness::checks
