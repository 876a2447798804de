// What step_is_oracle reports: departures of single stages of a step, and the findings that they become.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/checks/departures.h"

namespace harness::checks {

// The departure of one stage (data, initial_values, loss, ...) in one rank's step: its record differs from what the oracle
// computes from the records of earlier stages.
// `params` are full names. A law is reported if it is the only one that fits in all steps and ranks.
[[nodiscard]] Departure step_departure(std::string code,
                                       const std::string& op,
                                       int rank,
                                       std::int64_t step,
                                       const std::string& phase,
                                       std::vector<std::string> params = {},
                                       const oracles::Naming& naming = {});

class StepFindings {
 public:
  void add(Departure departure);
  [[nodiscard]] bool empty() const { return departures_.empty(); }
  // One for each code and operation, in the order of a step.
  [[nodiscard]] std::vector<Finding> findings() const;

 private:
  Departures departures_{Departures::Steps::first, "known"};
};

}  // namespace harness::checks
