// Do gradients travel between ranks in the type that was asked for? That is the type of the bucket, or bfloat16 where
// parallel.ddp.compress asks for it. Judged from each rank's own record of its all-reduces; what was made of the values is
// told by the sums (sum_law.h).
#pragma once

#include <optional>

#include "harness/checks/result.h"
#include "harness/evidence/gradient_sums.h"

namespace harness::checks {

// COMM.DTYPE of the first step in which a rank's all-reduces have another type.
[[nodiscard]] std::optional<Finding> other_type_travels(const Evidence& evidence);

}  // namespace harness::checks
