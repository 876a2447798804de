// Experiments that take an edge of the sizes away from a case: a last block that is not whole, a window that ends, several groups,
// heads or sequences. Each makes the case as large as it was or larger where it can, so that the places that failed are still
// there.
#pragma once

#include <vector>

#include "harness/diagnose/experiments.h"

namespace harness {

[[nodiscard]] std::vector<Experiment> experiments_on_shapes();

}  // namespace harness
