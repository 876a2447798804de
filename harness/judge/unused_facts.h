// Is a stored tensor what the training used? An error of the model spreads: what is computed from a wrong tensor follows from the
// wrong numbers. A mistake of the recorder does not: what is computed from the tensor follows from the right numbers, which are not
// on record. So each fact that does not follow from the others is put right, and the checks judge again.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/evidence/evidence.h"
#include "harness/judge/finding.h"

namespace harness {

using JudgeAgain = std::function<std::vector<CheckResult>(const Evidence&)>;

// Names the facts that were never used, and what shows it. "" unless the checks pass when they are put right, nothing departs
// then that did not before, and each of them makes something follow that else does not. What nothing is computed from is never
// named, unless it is a report. `verdicts` are of `evidence`; `judge_again` gives those of the same checks.
[[nodiscard]] std::string unused_fact(const Evidence& evidence,
                                      std::span<const CheckResult> verdicts,
                                      const JudgeAgain& judge_again);

}  // namespace harness
