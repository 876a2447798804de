// What ended a worker, in the words of the ledger: whose failure it was as far as the exception itself tells.
#pragma once

#include <optional>
#include <string>

#include "harness/evidence/rows.h"

namespace harness {

// The first two REQUIRE: called inside a catch block.
// An implementation that refused what it was asked for; nothing when it is another exception.
[[nodiscard]] std::optional<Refusal> refusal_in_current_exception();
[[nodiscard]] WorkerError describe_current_exception(const std::string& phase, std::int64_t step);

// The seam that `error` left on this thread, as fact raised_in: [seam, layer]. Nothing where it came from elsewhere, or where the
// seam would be blamed for another's: a kernel that failed is told of by whatever is called next, unless every launch is waited for
// (CUDA_LAUNCH_BLOCKING=1).
[[nodiscard]] std::optional<Fact> seam_to_blame(const WorkerError& error);

}  // namespace harness
