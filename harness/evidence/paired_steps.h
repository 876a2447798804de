// Ranks of a training of the user's own count their steps themselves: a step ends with the optimiser's. If a rank leaves an
// optimiser step out and keeps the gradients, its later steps have numbers that are too small. What all ranks do together is the
// reduction of gradients, so the n-th reduction of one rank is the n-th of the others.
#pragma once

#include "harness/evidence/evidence.h"

namespace harness {

// If all ranks end well: a step in which a rank made more reductions than usual gets the number of the last of the steps that it
// stands for. So this rank has no rows of the step whose optimiser step it left out.
[[nodiscard]] Evidence with_paired_steps(Evidence evidence);

}  // namespace harness
