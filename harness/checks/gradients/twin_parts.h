// The two halves of matches_twin, a step at a time: local gradients against the twin's, and the reduced ones against the mean
// of the local ones. Each adds what it found and what was missing to the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/checks/departures.h"
#include "harness/checks/gradients/ledger.h"

namespace harness::checks {

struct TwinCase {
  const Evidence& evidence;
  const Ledger& ledger;
  const std::vector<std::string>& params;
};

struct PartOfTwin {
  bool found = false;
  std::int64_t equal = 0;    // local gradients that are the twin's
  double worst_share = 0.0;  // of the bound of the sum
};

[[nodiscard]] PartOfTwin compare_local(const TwinCase& the_case,
                                       std::int64_t step,
                                       ResultBuilder& result);
[[nodiscard]] PartOfTwin compare_sums(const TwinCase& the_case,
                                      std::int64_t step,
                                      ResultBuilder& result);

}  // namespace harness::checks
