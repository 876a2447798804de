// The course of the loss scale.
#include "oracles/training/scaler.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace oracles::testing {
namespace {

// Overflows at these steps (counted from 0), long rows between.
std::vector<bool> overflows_at(std::vector<std::size_t> places, std::size_t steps) {
  std::vector<bool> finite(steps, true);
  for (const std::size_t place : places) {
    finite[place] = false;
  }
  return finite;
}

TEST(LossScales, HalveAndDouble) {
  LossScale s;
  EXPECT_EQ(s.scale, 65536);
  s = scale_after(s, false);
  EXPECT_EQ(s.scale, 32768);
  for (int i = 0; i < 1999; ++i) {
    s = scale_after(s, true);
  }
  EXPECT_EQ(s.scale, 32768);
  s = scale_after(s, true);
  EXPECT_EQ(s.scale, 65536);
  EXPECT_EQ(s.taken, 0);
  s = scale_after({7, 1998}, false);
  EXPECT_EQ(s.scale, 3.5);
  EXPECT_EQ(scale_after(s, true).taken, 1);
}

TEST(LossScales, StayWithinTheirLimits) {
  EXPECT_EQ(scale_after({1, 5}, false).scale, 1);
  EXPECT_EQ(scale_after({1.5, 5}, false).scale, 1);
  EXPECT_EQ(scale_after({0x1p60, 1999}, true).scale, 0x1p60);
}

class ScaleLaws : public ::testing::TestWithParam<LossScale> {
 protected:
  // Rows that end early, rows that end in a doubling, and overflows until the lowest scale.
  std::vector<bool> finite_ = overflows_at({3, 4, 700, 1500, 4800, 9000, 9001, 9002, 9003}, 9500);
};

TEST_P(ScaleLaws, RightCoursesAreNamedByNone) {
  const std::vector<ScaleStep> steps = scales_under("right", GetParam(), finite_);
  EXPECT_EQ(name_scales(GetParam(), steps).text(), "right");
  LossScale state = GetParam();
  for (const ScaleStep& step : steps) {
    ASSERT_EQ(step.scale, state.scale);
    ASSERT_EQ(step.taken, step.finite);
    state = scale_after(state, step.finite);
  }
}

// Near a limit some laws take the same course (4 / 4 and 4 / 10 both end at 1): then both are told.
TEST_P(ScaleLaws, EveryLawIsNamedWithItsEqualsOnly) {
  int alone = 0;
  for (const Law& law : scale_laws()) {
    const std::vector<ScaleStep> course = scales_under(law.name, GetParam(), finite_);
    const Naming naming = name_scales(GetParam(), course);
    if (naming.right.fits()) {
      continue;  // the course never comes near the limit that the law is about
    }
    std::vector<std::string_view> equals;
    for (const Law& other : scale_laws()) {
      const std::vector<ScaleStep> its = scales_under(other.name, GetParam(), finite_);
      if (std::equal(its.begin(), its.end(), course.begin(), [](auto& a, auto& b) {
            return a.scale == b.scale && a.taken == b.taken;
          })) {
        equals.push_back(other.name);
      }
    }
    std::vector<std::string_view> named;
    for (const LawFit& fit : naming.fitting) {
      named.push_back(fit.law.name);
    }
    EXPECT_EQ(named, equals);
    EXPECT_EQ(std::count(named.begin(), named.end(), law.name), 1) << law.name;
    alone += named.size() == 1 ? 1 : 0;
  }
  EXPECT_GE(alone, 14);
}

INSTANTIATE_TEST_SUITE_P(Starts,
                         ScaleLaws,
                         ::testing::Values(LossScale{}, LossScale{4, 1200}, LossScale{0x1p60, 0}));

TEST(ScaleLawList, EveryLawHasAMeaningSomewhere) {
  const std::vector<bool> finite = overflows_at({3, 4, 700, 9000, 9001, 9002, 9003}, 9500);
  for (const Law& law : scale_laws()) {
    bool differs = false;
    for (const LossScale& first : {LossScale{}, LossScale{4, 1200}, LossScale{0x1p60, 0}}) {
      differs = differs || !name_scales(first, scales_under(law.name, first, finite)).right.fits();
    }
    EXPECT_TRUE(differs) << law.name;
  }
  EXPECT_THROW((void)scales_under("none", {}, finite), std::invalid_argument);
}

TEST(ScaleNaming, WhatNoLawGives) {
  std::vector<ScaleStep> steps = scales_under("right", {}, overflows_at({5}, 40));
  steps[20].scale = 3;
  const Naming naming = name_scales({}, steps);
  EXPECT_EQ(naming.right.wrong, 1);
  EXPECT_EQ(naming.right.first, 40);
  EXPECT_EQ(naming.text(), "no known law");
}

}  // namespace
}  // namespace oracles::testing
