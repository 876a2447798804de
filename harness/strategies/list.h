// The strategies there are; the first that is for a scenario is used. A new one is one file here and one line in list.cpp.
#pragma once

#include <vector>

#include "harness/strategies/strategy.h"

namespace harness::strategies {

[[nodiscard]] const std::vector<Strategy>& all();
[[nodiscard]] const Strategy& strategy_for(const Scenario& scenario);

[[nodiscard]] Strategy bisect();  // a minimal set of values with which a case fails
[[nodiscard]] Strategy matrix();  // every point of the axes, once

}  // namespace harness::strategies
