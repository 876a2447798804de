// Kind `throughput`: one rank trains, one optimiser step after the other, and nothing stands around the model that costs time.
// Per step: milliseconds with the device's work, those of a dense control beside it (dense_control.h), tokens per second, memory by
// phase, how often the host waited for the device.
#pragma once

#include "harness/worker/kind.h"

namespace harness {

[[nodiscard]] Kind throughput();

}  // namespace harness
