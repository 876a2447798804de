// The side of a slowdown: of intervals, by where they lie.
#include "harness/history/slow_commit.h"

#include <cmath>

#include <gtest/gtest.h>

namespace harness::history {
namespace {

constexpr double kSlowdown = 0.05;

CommitAnswer side(double low, double high) {
  return side_of_slowdown({0.5 * (low + high), low, high}, kSlowdown);
}

TEST(Slowdown, AnIntervalOnOneSideOfTheMiddleDecides) {
  EXPECT_EQ(side(-0.01, 0.02), CommitAnswer::good);
  EXPECT_EQ(side(0.03, 0.07), CommitAnswer::bad);
  EXPECT_EQ(side(0.10, 0.20), CommitAnswer::bad) << "slower than the last one";
  EXPECT_EQ(side(-0.20, -0.10), CommitAnswer::good);
}

TEST(Slowdown, AnIntervalWithTheMiddleOrNoneIsUnknown) {
  EXPECT_EQ(side(0.01, 0.04), CommitAnswer::unknown);
  EXPECT_EQ(side(0.025, 0.07), CommitAnswer::unknown);
  EXPECT_EQ(side(NAN, NAN), CommitAnswer::unknown);
}

}  // namespace
}  // namespace harness::history
