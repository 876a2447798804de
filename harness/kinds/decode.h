// Kind `decode`: the whole sequence at once, and again as a prompt followed by single tokens from caches, on one rank. Both
// are recorded layer by layer, with what each step really read.
#pragma once

#include "harness/worker/kind.h"

namespace harness {

[[nodiscard]] Kind decode();

}  // namespace harness
