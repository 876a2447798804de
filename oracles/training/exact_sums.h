// Sums over ranks that are known before they are taken (docs/data.md, "Sums that are known beforehand"): small integers, so that
// no order of additions rounds in any type that gradients travel in. What a rank holds of such a sum is right or wrong, without a
// tolerance and without anybody's word.
#pragma once

#include <cstdint>
#include <vector>

namespace oracles {

struct ExactSum {
  std::int64_t seed = 0;
  std::int64_t step = 1;
  std::int64_t bucket = 0;
  std::int64_t world = 1;
};

// After so many elements the addends come again: a prime, so that no piece of a message is a multiple of it.
inline constexpr std::int64_t kSumPeriod = 65521;
// With more ranks a sum has no eight bits left for each addend.
inline constexpr std::int64_t kMostRanksOfASum = 255;

// Those of one rank, of the first `count` elements. REQUIRES: world <= kMostRanksOfASum, count <= kSumPeriod.
[[nodiscard]] std::vector<int> addends(const ExactSum& sum, std::int64_t rank, std::int64_t count);
// Of all ranks.
[[nodiscard]] std::vector<int> sums(const ExactSum& sum, std::int64_t count);

}  // namespace oracles
