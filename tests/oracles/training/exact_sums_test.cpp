// Sums that are known beforehand: the formula of docs/data.md said once more, and that no order of the additions can round.
#include "oracles/training/exact_sums.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <gtest/gtest.h>

namespace oracles::testing {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

std::uint64_t drawn(std::uint64_t key, std::uint64_t i) {
  return mixed(mixed(key) ^ mixed(i + 1));
}

TEST(ExactSums, AddendsAreThoseOfThePage) {
  const ExactSum sum{.seed = 7, .step = 3, .bucket = 2, .world = 4};
  const std::uint64_t key = drawn(drawn(drawn(7U ^ (std::uint64_t{1} << 62U), 3), 2), 1);
  const std::vector<int> all = addends(sum, 1, 100);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i], static_cast<int>(drawn(key, i) % 127) - 63) << i;
  }
}

TEST(ExactSums, NoPartialSumNeedsMoreThanEightBits) {
  for (const std::int64_t world : {1, 2, 3, 8, 254, 255}) {
    const ExactSum sum{.seed = 1, .step = 1, .bucket = 0, .world = world};
    std::vector<int> largest(50, 0);
    for (std::int64_t rank = 0; rank < world; ++rank) {
      const std::vector<int> of_rank = addends(sum, rank, 50);
      for (std::size_t i = 0; i < largest.size(); ++i) largest[i] += std::abs(of_rank[i]);
    }
    EXPECT_LE(*std::max_element(largest.begin(), largest.end()), 255) << world;
    EXPECT_GT(*std::max_element(largest.begin(), largest.end()), 0) << world;
  }
}

TEST(ExactSums, EveryRankStepBucketAndSeedHasItsOwn) {
  const ExactSum sum{.seed = 1, .step = 1, .bucket = 0, .world = 2};
  const std::vector<int> first = addends(sum, 0, 30);
  EXPECT_NE(addends(sum, 1, 30), first);
  EXPECT_NE(addends({2, 1, 0, 2}, 0, 30), first);
  EXPECT_NE(addends({1, 2, 0, 2}, 0, 30), first);
  EXPECT_NE(addends({1, 1, 1, 2}, 0, 30), first);
  std::vector<int> both = addends(sum, 1, 30);
  for (std::size_t i = 0; i < both.size(); ++i) both[i] += first[i];
  EXPECT_EQ(sums(sum, 30), both);
}

}  // namespace
}  // namespace oracles::testing
