// Which findings are initiating, and what follows from what.
#pragma once

#include <vector>

#include "harness/judge/finding.h"

namespace harness {

// Of independent findings, the smaller one is told first: how processes ended, then the earlier step, then the place in the
// table of codes, then the more exact site.
[[nodiscard]] bool is_told_before(const Finding& a, const Finding& b);

// Gives every finding its role, and to a consequence the number of its cause and the tie. Numbers count from 1 in the order
// of telling: each initiating finding, followed by its consequences; then teardown. A finding that no edge ties to another is
// initiating. What the controller did itself stays teardown, as its check said.
void assign_roles(std::vector<Finding>& findings);

}  // namespace harness
