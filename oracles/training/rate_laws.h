// Learning rates that are known to be wrong. Of a step they look like this: another step's rate, no
// warm-up, no fall, another curve.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "oracles/naming.h"
#include "oracles/training/optimizer.h"

namespace oracles {

std::span<const Law> rate_laws();

// One step as a run recorded it.
struct RecordedRate {
  std::int64_t n = 1;        // optimiser steps taken, this one included
  std::int64_t skipped = 0;  // steps skipped before
  double rate = 0;
};

// The learning rate of step n under the law. None where the law has no meaning there or gives what
// is right. Throws std::invalid_argument for an unknown name.
std::optional<double> rate_under(std::string_view law,
                                 const TrainConfig& config,
                                 std::int64_t accumulate,
                                 std::int64_t n,
                                 std::int64_t skipped);

// All recorded steps of a run together: one step alone leaves several laws. A rate is right within
// 16 float64 roundings of the highest one (config.lr), to which the cosine adds and from which it
// subtracts numbers near 1; `recorded` is the unit roundoff of the type that rates are recorded in.
Naming name_rates(const TrainConfig& config,
                  std::int64_t accumulate,
                  std::span<const RecordedRate> rates,
                  double recorded = 0x1p-53);

}  // namespace oracles
