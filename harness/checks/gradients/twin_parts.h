// The two halves of matches_twin, a step at a time: local gradients against the twin's, and the reduced ones against the mean
// of the local ones. Each adds what it found and what was missing to the result.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "harness/checks/gradients/ledger.h"

namespace harness::checks {

struct TwinCase {
  const Evidence& evidence;
  const Ledger& ledger;
  const std::vector<std::string>& params;
};

// What the same finding on several ranks has in common.
struct GradientPlace {
  std::int64_t step = 0;
  std::string code;
  std::vector<std::string> params;
  std::vector<int> buckets;
  std::string factor;  // in words, or what of the sum is narrow
  auto operator<=>(const GradientPlace&) const = default;
};

// What is told of it.
struct ToldGradient {
  std::set<int> ranks;
  std::size_t differing = 0;
  double factor = 1.0;
  double worst = 0.0;
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
