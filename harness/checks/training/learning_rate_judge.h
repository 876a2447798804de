// Is the learning rate of every step the schedule's?
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "harness/checks/result.h"
#include "harness/checks/series.h"
#include "harness/checks/training/scheduled_rate.h"

namespace harness::checks {

class LearningRates {
 public:
  explicit LearningRates(const Evidence& evidence);

  // `number` counts optimiser steps that were done: one that is skipped does not advance the schedule. Where the rate is not
  // on record, `result` is told. Gives the smaller of what was applied and what the schedule says.
  double read(int rank, std::int64_t step, std::int64_t number, ResultBuilder& result);

  // The largest of the schedule, over the steps of the case.
  [[nodiscard]] double largest() const { return largest_; }

  // Of the rank whose rate is wrong first; nothing where all that were read are the schedule's.
  [[nodiscard]] std::optional<Finding> finding() const;

 private:
  const Evidence& evidence_;
  const nsa::OptimizerConfig& config_;
  Series rates_;
  double largest_ = 0.0;
  std::map<int, std::vector<AppliedRate>> wrong_;  // by rank, from the first wrong one on
};

}  // namespace harness::checks
