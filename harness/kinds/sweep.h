// Kind `sweep`: one process trains the model for a step at every combination of sizes and records what it took: memory and
// time. The model is built anew for each, so that nothing is left over from the size before.
#pragma once

#include "harness/worker/kind.h"

namespace harness {

[[nodiscard]] Kind sweep();

}  // namespace harness
