// Which of two computations was it? Whoever meets one of them number by number is told; what lies apart from both by more than
// they differ, or agrees with one in a few large numbers alone, is not.
#include "harness/checks/nearer.h"

#include <random>

#include <gtest/gtest.h>

namespace {

using harness::checks::nearer_to;
using oracles::Tensor;

constexpr std::size_t kCount = 400;

struct Three {
  Tensor plain = oracles::zeros({20, 20});
  Tensor other = plain;
  Tensor found = plain;
};

// The two computations differ by one step of size 1 wherever they differ.
Three two_computations(unsigned seed) {
  std::mt19937 random(seed);
  Three all;
  for (std::size_t i = 0; i < kCount; ++i) {
    all.plain.data[i] = static_cast<double>(random() % 100);
    all.other.data[i] = all.plain.data[i] + (random() % 3 == 0 ? 1.0 : 0.0);
  }
  return all;
}

TEST(Nearer, TellsTheOtherWhereItIsMet) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Three all = two_computations(seed);
    all.found = all.other;
    EXPECT_TRUE(nearer_to(all.other, all.found, all.plain).is_nearer());
    all.found = all.plain;
    EXPECT_FALSE(nearer_to(all.other, all.found, all.plain).is_nearer());
  }
}

// Large numbers make the distance. That they agree by chance is no vote of the many small ones.
TEST(Nearer, DoesNotGoByAFewLargeNumbers) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Three all = two_computations(seed);
    for (std::size_t i = 0; i < 3; ++i) all.other.data[i] = all.plain.data[i] + 1000.0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const bool takes_other = i < 3 || random() % 2 == 0;
      all.found.data[i] = takes_other ? all.other.data[i] : all.plain.data[i];
    }
    const auto seen = nearer_to(all.other, all.found, all.plain);
    ASSERT_GT(seen.from_plain, 2 * seen.from_other);
    EXPECT_FALSE(seen.is_nearer()) << seed;
  }
}

}  // namespace
