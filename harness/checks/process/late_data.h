// Did a rank wait for its data longer than it ever computed? Read from when phases began: of a case that moved on by itself.
#pragma once

#include <vector>

#include "harness/judge/check.h"

namespace harness::checks {

// SLOW.DATA, one finding a rank that waited; none where the data came in time.
[[nodiscard]] std::vector<Finding> late_data(const Evidence& evidence);

}  // namespace harness::checks
