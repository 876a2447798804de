// The learning rate of each optimiser step, restated without the model's code: linear warm-up, then a cosine to zero, over
// optimiser steps that were done. And the law that gives the rates that were really applied instead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsa/base/config.h"

namespace harness::checks {

// Steps count from 1.
[[nodiscard]] double scheduled_rate(const nsa::OptimizerConfig& config, std::int64_t step);

struct AppliedRate {
  std::int64_t step = 0;    // of the case, skipped ones counted
  std::int64_t number = 0;  // of the optimiser steps that were done
  double found = 0.0;
};
[[nodiscard]] bool is_scheduled(const nsa::OptimizerConfig& config, const AppliedRate& rate);

struct RateLaw {
  std::string name;     // zero, micro_steps, skipped_steps, never_falls; "" for none
  bool fitted = false;  // the floor to which the rate falls is taken from the rates themselves
};
// The one law that gives all of `rates`: those from the first wrong step on. REQUIRES: they are not empty.
[[nodiscard]] RateLaw explain_rates(const nsa::OptimizerConfig& config,
                                    std::int64_t accumulate,
                                    const std::vector<AppliedRate>& rates);

}  // namespace harness::checks
