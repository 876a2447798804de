// Did a rank wait for one batch longer than it ever computed, or in most steps longer than for the rest of the step? Read from
// when phases began, in all lives of the ranks: of a case that moved on by itself.
#pragma once

#include <vector>

#include "harness/judge/check.h"

namespace harness::checks {

// SLOW.DATA, one finding a rank that waited; none where the data came in time.
[[nodiscard]] std::vector<Finding> late_data(const Evidence& evidence);

}  // namespace harness::checks
