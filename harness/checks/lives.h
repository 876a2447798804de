// Lives of a run: ranks that were ended on purpose and started again write their rows anew, some steps a second time and
// their sequence numbers from 0.
#pragma once

#include <algorithm>
#include <cstdint>

#include "harness/evidence/evidence.h"

namespace harness::checks {

// 0 in the first life. Rows carry the time at which their process wrote them, and lives do not overlap.
[[nodiscard]] inline int life_at(const Evidence& evidence, std::int64_t t_ms) {
  return static_cast<int>(std::count_if(evidence.relaunches.begin(),
                                        evidence.relaunches.end(),
                                        [&](const auto& row) { return row.t_ms < t_ms; }));
}

}  // namespace harness::checks
