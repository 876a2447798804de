// Did the case move? A hang is said only when nothing moved on any rank and two looks from outside show a standstill; a rank that
// computes, sleeps or waits for a busy child is slow. A timeout alone is never a hang.
#pragma once

#include "harness/evidence/evidence.h"
#include "harness/judge/finding.h"

namespace harness::checks {

// REQUIRES: no rank was started again within `life`. `all` is the evidence of all lives: data that came late stays late.
[[nodiscard]] CheckResult hang_or_slow(const Evidence& life, const Evidence& all);

}  // namespace harness::checks
