// What can lead to what: a graph over kinds of findings, as data. The roles that follow from it are given in find_cause.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "harness/judge/finding.h"
#include "harness/judge/ties.h"

namespace harness {

// A finding that `cause` describes can lead to one that `effect` describes, where `tie` ties them. Both are patterns: a
// family ("forward"), the beginning of a code ("DESYNC."), a code with a variant ("NUMERIC.GRADIENT/twin"), with the
// operation of its site ("ROUTE.MISMATCH@grad_sync"), with one of its parts ("RESUME.DIVERGED#schedule") or without some
// ("RESUME.DIVERGED/diverged!schedule!moments"), with the law that it names ("OPT.UPDATE_WRONG=update_lost"), or two of these at
// once ("DESYNC.+collective").
struct Edge {
  std::string_view cause;
  std::string_view effect;
  Tie tie;
};

[[nodiscard]] std::span<const Edge> all_edges();

[[nodiscard]] bool fits(std::string_view pattern, const Finding& finding);

}  // namespace harness
