// Verdicts that cannot both be true of the same evidence: one check passed on a fact, and another one's finding denies it. Then a
// check or the record is wrong, and nothing says which.
#pragma once

#include <span>
#include <string>

#include "harness/evidence/evidence.h"
#include "harness/judge/finding.h"

namespace harness {

// "gradients_agree passed (...), and matches_twin denies it: ..."; "" where no two contradict each other.
[[nodiscard]] std::string contradiction_between(std::span<const CheckResult> verdicts,
                                                const Evidence& evidence);

}  // namespace harness
