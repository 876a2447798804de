// Ranks of a training of the user's own count their steps themselves: a step ends with the optimiser's. If a rank leaves an optimiser step
// out and keeps the gradients, its later steps have numbers that are too small. What all ranks do together is the reduction of
// gradients, so the n-th reduction of one rank is the n-th of the others.
#pragma once

#include "harness/evidence/evidence.h"

namespace harness {

// The steps of each rank get the numbers that the rank with the most steps has where it has made as many reductions. A rank that leaves
// out an optimiser step then has no rows of that step. Where no rank counts reductions, nothing changes.
[[nodiscard]] Evidence with_paired_steps(Evidence evidence);

}  // namespace harness
