// Runs what a diagnosis asks for, within its time.
#pragma once

#include <functional>
#include <vector>

#include "harness/scenario/case.h"
#include "harness/store/store.h"

namespace harness::cli {

inline constexpr double kDiagnoseSeconds = 120.0;

// For RunPlan::more: the next experiment of a point whose case failed, as long as it would end within `seconds` since the
// first was asked for, as far as the case itself tells. `command` says what is diagnosed (kDiagnoseOption).
[[nodiscard]] std::function<std::vector<Case>(std::size_t point,
                                              const std::vector<const CaseRecord*>& ran)>
experiments_within(double seconds, const Pairs& command);

// What the diagnoses of the run found, for people.
[[nodiscard]] std::string diagnosis_lines(const Pairs& command,
                                          const std::vector<CaseRecord>& records);

}  // namespace harness::cli
