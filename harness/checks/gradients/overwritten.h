// A tensor that the backward needs and that was written to meanwhile: from what the watch around the seams recorded, and
// from what autograd says when it notices.
#pragma once

#include <optional>

#include "harness/evidence/evidence.h"
#include "harness/judge/finding.h"

namespace harness::checks {

[[nodiscard]] bool says_overwritten(const WorkerError& error);

// INPLACE.MODIFIED of all ranks in one step; nothing where none is on record.
[[nodiscard]] std::optional<Finding> overwritten_in_step(const Evidence& evidence,
                                                         std::int64_t step);

}  // namespace harness::checks
