// Learning rate of each optimiser step: linear warm-up, then a cosine to zero.
#pragma once

#include <cstdint>

#include "nsa/base/config.h"

namespace nsa {

// lr * f(step - 1), with f(k) = (k+1)/warmup for k < warmup, else (1 + cos(pi (k-warmup)/(total-warmup)))/2, and 0 from
// k = total on. `step` counts optimiser steps from 1.
[[nodiscard]] double learning_rate(const OptimizerConfig& config, std::int64_t step);

}  // namespace nsa
