#include "harness/checks/process/least_squares.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace harness::checks {
namespace {

TEST(PowerLaw, IsExactOnAnExactOne) {
  const std::vector<double> x = {1, 2, 3, 5, 8};
  std::vector<double> y;
  for (const double value : x) y.push_back(7.0 * std::pow(value, 1.6));
  const PowerLaw law = fit_power_law(x, y);
  EXPECT_NEAR(law.exponent, 1.6, 1e-12);
  EXPECT_NEAR(law.low, 1.6, 1e-9);
  EXPECT_NEAR(law.high, 1.6, 1e-9);
}

// 95 % of the intervals hold the true exponent: of 400, fewer than 360 would be chance once in a million.
TEST(PowerLaw, TheIntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0.0, 0.1);
  int held = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> x;
    std::vector<double> y;
    for (int i = 1; i <= 6; ++i) {
      x.push_back(i);
      y.push_back(std::pow(i, 2.0) * std::exp(noise(random)));
    }
    const PowerLaw law = fit_power_law(x, y);
    held += law.low <= 2.0 && 2.0 <= law.high ? 1 : 0;
  }
  EXPECT_GE(held, 360);
  EXPECT_LE(held, 397);
}

TEST(PowerLaw, TwoPointsTellNothingAboutTheirSpread) {
  const PowerLaw law = fit_power_law({1, 2}, {1, 4});
  EXPECT_NEAR(law.exponent, 2.0, 1e-12);
  EXPECT_TRUE(std::isinf(law.low));
  EXPECT_TRUE(std::isinf(law.high));
}

TEST(Line, IsExactOnAnExactOne) {
  const Line line = fit_line({1, 2, 3, 4}, {5, 7, 9, 11});
  EXPECT_NEAR(line.mean, 8.0, 1e-12);
  EXPECT_NEAR(line.slope, 2.0, 1e-12);
  EXPECT_NEAR(line.low, 2.0, 1e-9);
  EXPECT_NEAR(line.high, 2.0, 1e-9);
  EXPECT_NEAR(line.scatter, 0.0, 1e-12);
}

// 99 % of the intervals hold the true slope: of 1000, fewer than 970 or more than 999 would be chance once in a million.
TEST(Line, TheIntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937 random(11);
  std::normal_distribution<double> noise(0.0, 0.5);
  int held = 0;
  double scatter = 0.0;
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<double> x;
    std::vector<double> y;
    for (int i = 0; i < 9; ++i) {
      x.push_back(i);
      y.push_back(3.0 - 0.25 * i + noise(random));
    }
    const Line line = fit_line(x, y);
    held += line.low <= -0.25 && -0.25 <= line.high ? 1 : 0;
    scatter += line.scatter / 1000.0;
  }
  EXPECT_GE(held, 970);
  EXPECT_LE(held, 999);
  EXPECT_NEAR(scatter, 0.5, 0.05);
}

TEST(Shares, FindsWhatTheSumWasMadeOf) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> size(1.0, 100.0);
  std::vector<std::vector<double>> features;
  std::vector<double> y;
  for (int i = 0; i < 12; ++i) {
    const double a = size(random);
    const double b = size(random);
    features.push_back({a, a * b, 1.0});
    y.push_back(3.0 * a + 0.5 * a * b + 20.0);
  }
  const std::vector<double> shares = fit_shares(features, y);
  EXPECT_NEAR(shares.at(0), 3.0, 1e-6);
  EXPECT_NEAR(shares.at(1), 0.5, 1e-8);
  EXPECT_NEAR(shares.at(2), 20.0, 1e-4);
}

TEST(Shares, NothingIsTakenAway) {
  const std::vector<double> shares = fit_shares({{1, 1}, {2, 4}, {3, 9}}, {10, 18, 24});
  EXPECT_GE(shares.at(0), 0.0);
  EXPECT_GE(shares.at(1), 0.0);
}

}  // namespace
}  // namespace harness::checks
