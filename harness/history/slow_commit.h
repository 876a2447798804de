// On which side of a slowdown does a commit lie? No clock, no file, no database.
//
// The commits of a line are compared with its first one, which is fast; the last one is slower by `slowdown`. Where one commit made
// it slow, a commit before that one differs from the first by nothing, and a later one by all of it. The border is the middle.
// Where several commits share the slowdown, the search finds the one with which it passes its half.
#pragma once

#include "harness/history/commits.h"
#include "harness/history/paired.h"

namespace harness::history {

// `against_first`: of the commit beside the first one (log). good or bad where the whole interval lies on one side of the border,
// else unknown, as where there is no interval. REQUIRES: slowdown > 0.
[[nodiscard]] CommitAnswer side_of_slowdown(const PairedChange& against_first, double slowdown);

}  // namespace harness::history
