// What a case trains and for how long: as its scenario says or, of a command of the user's own, as its ranks recorded it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/checks/parameter_names.h"
#include "harness/evidence/evidence.h"

namespace harness::checks {

// By rank and step: what a rank that had joined (kSatOutFact) has no rows of, by right.
[[nodiscard]] std::set<std::pair<int, std::int64_t>> sat_out_steps(const Evidence& evidence);

// Whether some rank reports a fact of this name.
[[nodiscard]] bool any_rank_reports(const Evidence& evidence, std::string_view fact);

struct Course {
  std::vector<std::string> params;  // in the order of the model
  std::vector<std::int64_t> steps;  // ascending; of a command those that some rank recorded
  Uninfluential expected;           // of a command nothing is known
  bool as_recorded = false;         // of a command: what no rank recorded is not missed
  // With a loss mask: short names of what gets zeros, by rank and step. Positions after the last scored one act on nothing.
  std::map<std::pair<int, std::int64_t>, std::vector<std::string>> masked = {};

  std::set<std::pair<int, std::int64_t>> sat_out = {};
  std::map<std::string, std::int64_t> first_step =
      {};  // of a command: in which some rank has a row of it

  [[nodiscard]] static Course of(const Evidence& evidence);
  // A rank has no rows of steps that it sat out. What a script makes later has none before.
  [[nodiscard]] bool may_lack(const std::string& param, int rank, std::int64_t step) const {
    const auto first = first_step.find(param);
    return sat_out.count({rank, step}) > 0 || (first != first_step.end() && step < first->second);
  }
  // Short names of the parameters whose gradient is zero in every element.
  [[nodiscard]] const std::vector<std::string>& zero_of(int rank, std::int64_t step) const {
    const auto found = masked.find({rank, step});
    return found == masked.end() ? expected.zero : found->second;
  }
};

}  // namespace harness::checks
