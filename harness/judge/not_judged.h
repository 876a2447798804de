// What could not be judged, told with the finding that is the reason.
#pragma once

#include <span>
#include <vector>

#include "harness/judge/finding.h"

namespace harness {

// Adds each entry to the finding that explains why its evidence is not there: one that stopped a rank that it was wanted of,
// or a wrong forward in the layer that it was wanted of. What no finding explains is told with the verdict alone.
void tell_not_judged(std::span<const NotJudged> lacking, std::vector<Finding>& findings);

}  // namespace harness
