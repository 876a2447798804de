// Findings about a case in which nothing moved: which rank stands still, or which one is slow.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/checks/process/rank_state.h"

namespace harness::checks {

// All live ranks stood still. `gone`: those that had ended before. Of a command, and of ranks that are watched as processes alone,
// it need not be known what they wait for.
[[nodiscard]] Finding hang_of(const std::vector<RankState>& live,
                              const std::vector<int>& gone,
                              const Scenario& scenario);

// A kernel of these ranks ran for longer than anything before it. `live`: they and all others.
[[nodiscard]] Finding hang_of_kernel(const std::vector<RankState>& ranks,
                                     const std::vector<RankState>& live);

// These ranks waited in calls with a limit for longer than the case had time. `live`: they and all others.
[[nodiscard]] Finding outlasted(const std::vector<RankState>& ranks,
                                const std::vector<RankState>& live);

// SLOW.HOST; rank, phase, step and layer are those of the first.
[[nodiscard]] Finding slow_host(const char* variant, const std::vector<RankState>& ranks);

// The same for ranks that did not stand still, in words for what they did.
[[nodiscard]] Finding slow_by_doing(Doing doing, const std::vector<RankState>& ranks);

}  // namespace harness::checks
