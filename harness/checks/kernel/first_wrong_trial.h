// The first trial of a foreign kernel whose first call is not what the oracle gives. Asked when the kernel's process has ended: a
// fresh process then calls that trial alone, and kernel_is_oracle tells whether earlier calls made it wrong.
#pragma once

#include <optional>

#include "harness/evidence/evidence.h"

namespace harness::checks {

// Nothing where all are right, or could not be judged; also where the case does not ask for kernel_is_oracle.
[[nodiscard]] std::optional<int> first_wrong_trial(const Evidence& evidence);

}  // namespace harness::checks
