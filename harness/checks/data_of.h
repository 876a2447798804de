// What ranks train on, in the oracle's words.
#pragma once

#include "harness/scenario/scenario.h"
#include "oracles/training/data.h"

namespace harness::checks {

[[nodiscard]] oracles::DataConfig data_of(const Scenario& scenario);

}  // namespace harness::checks
