// A check: a pure function from evidence to a verdict. No clock, no GPU, no network, no random number, no state.
// A check that lacks evidence is inconclusive and says what was missing; it never passes on nothing.
// Which fault was planted, and what was expected, is hidden: checks get a case without `fault` and `expect`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/evidence/evidence.h"
#include "harness/judge/finding.h"

namespace harness {

struct Check {
  std::string name;                // gradients_arrived
  std::string about;               // one line for `list` and the report
  std::vector<std::string> codes;  // every code it can give
  CheckResult (*judge)(const Evidence& evidence) = nullptr;
  int observe = kWatchValues;  // the lowest level of observation that records its evidence
};

}  // namespace harness
