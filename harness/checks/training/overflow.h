// Steps in which float16 gradients overflowed at the loss scale of the moment, and which were left out: the scaler saw it and
// halved the scale, or the rank ended before it could. What is not finite there is what the scaler is for, and nothing can be
// compared with it.
#pragma once

#include <cstdint>
#include <set>

#include "harness/evidence/evidence.h"

namespace harness::checks {

// Of any rank, since the sum carries it to all.
[[nodiscard]] std::set<std::int64_t> overflowed_steps(const Evidence& evidence);

}  // namespace harness::checks
