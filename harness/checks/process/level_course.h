// What a case shows at its level of observation, in a form that another case can be compared with: how it ended, its losses, and
// the state after its last step.
#pragma once

#include <optional>

#include "harness/evidence/evidence.h"

namespace harness::checks {

// Nothing where the case was interrupted, or where it is not known how its ranks ended.
[[nodiscard]] std::optional<OtherLevel> shown_at_level(const Evidence& evidence);

// The cases are the same but for the level of observation, and for what is expected or known of them.
[[nodiscard]] bool differ_in_level_alone(const Scenario& a, const Scenario& b);

}  // namespace harness::checks
