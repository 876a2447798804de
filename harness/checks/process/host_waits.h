// Did a rank make the host wait for the device more often than its implementations do by themselves? Read from what both a rank
// and its twin counted around the forwards of every seam.
#pragma once

#include <vector>

#include "harness/judge/check.h"

namespace harness::checks {

// SLOW.SYNC_STORM, one finding a seam; none where nobody waited more often than the twin, or where there was no twin.
[[nodiscard]] std::vector<Finding> host_waits(const Evidence& evidence);

}  // namespace harness::checks
