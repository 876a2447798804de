// What can lead to what: a graph over kinds of findings as data, and the roles that follow from it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/judge/finding.h"
#include "harness/judge/ties.h"

namespace harness {

// A finding that `cause` describes can lead to one that `effect` describes, where `tie` ties them. Both are patterns: a
// family ("forward"), the beginning of a code ("DESYNC."), a code with a variant ("NUMERIC.GRADIENT/twin") or with the
// operation of its site ("ROUTE.MISMATCH@grad_sync").
struct Edge {
  std::string_view cause;
  std::string_view effect;
  Tie tie;
};

[[nodiscard]] std::span<const Edge> all_edges();

[[nodiscard]] bool fits(std::string_view pattern, const Finding& finding);

// Of independent findings, the smaller one is told first: how processes ended, then the earlier step, then the place in the
// table of codes, then the more exact site.
[[nodiscard]] bool is_told_before(const Finding& a, const Finding& b);

// Gives every finding its role, and to a consequence the number of its cause and the tie. Numbers count from 1 in the order
// of telling: each initiating finding, followed by its consequences; then teardown. A finding that no edge ties to another is
// initiating. What the controller did itself stays teardown, as its check said.
void assign_roles(std::vector<Finding>& findings);

}  // namespace harness
