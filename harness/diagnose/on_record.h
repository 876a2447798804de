// What the record of the failure itself establishes, so that no experiment has to: who ended, and how.
#pragma once

#include <string>
#include <vector>

#include "harness/bundle/failure.h"
#include "harness/scenario/scenario.h"

namespace harness {

// A sentence; "" where the record alone does not establish the cause.
[[nodiscard]] std::string established_by_record(const Scenario& scenario,
                                                const std::vector<Cause>& causes);

}  // namespace harness
