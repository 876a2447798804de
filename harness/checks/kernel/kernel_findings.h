// From what is wrong in single trials of a foreign kernel to findings: one mistake is one finding, whatever the number of trials
// and outputs that show it. A law is named only if it gives every row of every trial, the right ones too. Else the finding says
// which rows are wrong.
#pragma once

#include <vector>

#include "harness/checks/kernel/laws_in_trials.h"

namespace harness::checks {

// What a departure is about: the output, the sums or the gradients; of scores and choices the code.
[[nodiscard]] std::string about_of(const Departure& seen);

// `list`: all departures of one kind of call, each with its trial's number as layer.
[[nodiscard]] std::vector<Finding> findings_of(std::vector<Departure> list,
                                               const LawsInTrials& trials,
                                               const Scenario& scenario);

}  // namespace harness::checks
