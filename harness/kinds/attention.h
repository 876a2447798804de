// Kind `attention`: every attention layer of the model alone, on one rank: inputs and cotangents of the case's choice, forward
// and backward, everything recorded; the same again with the end of the sequence replaced, where causality is asked for, and
// by the reference back ends, where those are to be compared with. No data, no optimiser, no peers.
#pragma once

#include "harness/worker/kind.h"

namespace harness {

[[nodiscard]] Kind attention();

}  // namespace harness
