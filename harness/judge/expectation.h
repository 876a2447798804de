// Whether a judged case showed what its scenario expects of a planted fault. Only the judge asks; no check does.
#pragma once

#include <string>
#include <string_view>

#include "harness/judge/judge.h"

namespace harness {

// Only what `wanted` sets is compared. Layers, ranks and heads must be the same sets; rows and `detail` must be contained;
// numbers of `detail` may differ by one part in a thousand (a measured factor).
[[nodiscard]] bool site_matches(const Site& wanted, const Site& seen);

// "A or B" accepts both.
[[nodiscard]] bool code_matches(const std::string& wanted, std::string_view seen);

// Has an initiating finding of one of these codes?
[[nodiscard]] bool has_initiating(const std::string& wanted, const Judgement& seen);

// What was missed, for people; "" when outcome, code and site are as expected. Code and site are met by one and the same
// initiating finding.
[[nodiscard]] std::string expectation_missed(const Expectation& wanted, const Judgement& seen);

}  // namespace harness
