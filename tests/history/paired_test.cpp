// Programs that are launched in turn: what is found, how often nothing is taken for something.
#include "harness/history/paired.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace {

using harness::history::kFewestPairs;
using harness::history::paired_change;
using harness::history::PairedChange;

// Launches that scatter by 1 % and now and then, when a neighbour is at work, take 8 % longer.
std::vector<double> drawn(std::mt19937& random, std::size_t pairs, double change) {
  std::normal_distribution<> noise(0.0, 0.01);
  std::bernoulli_distribution neighbour(0.1);
  const auto launch = [&] { return noise(random) + (neighbour(random) ? 0.08 : 0.0); };
  std::vector<double> differences(pairs);
  for (double& one : differences) one = change + launch() - launch();
  return differences;
}

// The table of the signed ranks: at a level of 1 % nothing is left out of 7 pairs' means, one of 8, 8 of 12 (Wilcoxon 1945).
TEST(Paired, TheIntervalIsThatOfTheTables) {
  const std::vector<double> seven = {0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07};
  EXPECT_TRUE(std::isnan(paired_change(seven).low));
  EXPECT_DOUBLE_EQ(paired_change(seven).change, 0.04);
  std::vector<double> eight = seven;
  eight.push_back(0.08);
  ASSERT_EQ(eight.size(), kFewestPairs);
  EXPECT_DOUBLE_EQ(paired_change(eight).low, 0.01);
  EXPECT_DOUBLE_EQ(paired_change(eight).high, 0.08);
  std::vector<double> twelve(
      12);  // powers: all means differ, the eighth smallest is that of 2 and 8
  for (std::size_t i = 0; i < twelve.size(); ++i) twelve[i] = std::ldexp(1.0, static_cast<int>(i));
  EXPECT_DOUBLE_EQ(paired_change(twelve).low, 0.5 * (2.0 + 8.0));
}

TEST(Paired, NothingOrNotANumberHasNoChange) {
  EXPECT_TRUE(std::isnan(paired_change({}).change));
  const std::vector<double> broken(10, std::nan(""));
  EXPECT_TRUE(std::isnan(paired_change(broken).change));
}

TEST(Paired, EqualProgramsAreSeldomFoundDifferentAndSlowerOnesMostly) {
  std::mt19937 random(7);
  constexpr int kTrials = 2000;
  int wrong = 0;
  int found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const PairedChange none = paired_change(drawn(random, 12, 0.0));
    wrong += none.low > 0.0 || none.high < 0.0 ? 1 : 0;
    found += paired_change(drawn(random, 12, 0.05)).low > 0.0 ? 1 : 0;
  }
  EXPECT_LE(wrong, kTrials / 60);  // 20 are expected
  EXPECT_GE(found, kTrials * 3 / 4);
}

}  // namespace
