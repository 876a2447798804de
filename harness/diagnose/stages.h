// Experiments that compute a stage by a second implementation, written by hand, which is put over whatever stands in its seam. A
// failure that goes with it was in the code of that stage; its inputs, and all that comes before and after it, are as they were.
#pragma once

#include <vector>

#include "harness/diagnose/experiments.h"

namespace harness {

[[nodiscard]] std::vector<Experiment> experiments_on_stages();

}  // namespace harness
