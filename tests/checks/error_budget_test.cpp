// Laws of the budget of a narrow type: roundings are inside it wherever they fall, what one head, one row or everything on average
// is off by is outside, and so is a NaN.
#include "harness/checks/error_budget.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace {

using harness::checks::Measured;
using harness::checks::Spent;
using harness::checks::spent;
using oracles::Number;
using oracles::Tensor;

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kRows = 64;
constexpr std::int64_t kWidth = 16;

// Heads of very different size: one wrong head drowns in a maximum over all.
Tensor right_tensor(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Tensor tensor = oracles::zeros({1, 1, kHeads, kRows, kWidth});
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    const std::size_t head = i / (kRows * kWidth);
    tensor.data[i] = normal(random) * std::pow(0.1, static_cast<double>(head));
  }
  return tensor;
}

// Rounded `times` times, each time off by half a unit at most, as chained stages are.
Tensor kept(const Tensor& right, Number number, int times, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> half(-1.0, 1.0);
  Tensor tensor = right;
  for (double& value : tensor.data) {
    for (int i = 1; i < times; ++i) value += half(random) * oracles::unit_roundoff(number) * value;
    value = oracles::rounded(value, number);
  }
  return tensor;
}

Measured measured(const Tensor& found, const Tensor& right, const Tensor& plain, Number number) {
  Measured all{found, right, plain, number};
  all.heads = kHeads;
  all.head_of = [](std::size_t i) {
    return static_cast<std::int64_t>(i) / (kRows * kWidth) % kHeads;
  };
  return all;
}

template <typename Change>
Spent after(Change change, Number number, unsigned seed) {
  const Tensor right = right_tensor(seed);
  const Tensor plain = kept(right, number, 2, seed + 100);
  Tensor found = kept(right, number, 2, seed + 200);
  change(found.data);
  return spent(measured(found, right, plain, number));
}

std::size_t place(std::int64_t head, std::int64_t row) {
  return static_cast<std::size_t>((head * kRows + row) * kWidth);
}

class ErrorBudget : public ::testing::TestWithParam<Number> {};

TEST_P(ErrorBudget, OtherRoundingsOfTheSameNumberAreWithin) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Spent all = after([](auto&) {}, GetParam(), seed);
    EXPECT_TRUE(all.within()) << seed << ": " << all.where << " " << all.error << " of "
                              << all.limit;
  }
}

// One key a row: the yardstick is exact, and a kernel that keeps its partial results in steps of the row's largest number is not.
TEST_P(ErrorBudget, FixedStepsAreWithinWhereTheYardstickIsExact) {
  const Number number = GetParam();
  for (unsigned seed = 0; seed < 20; ++seed) {
    Tensor right = right_tensor(seed);
    for (double& value : right.data) value = oracles::rounded(value, number);
    for (const double steps : {64.0, 2.0}) {  // in a unit in the last place of the largest number
      Tensor found = right;
      for (std::size_t row = 0; row < found.data.size(); row += kWidth) {
        double largest = 0.0;
        for (std::size_t i = row; i < row + kWidth; ++i) {
          largest = std::max(largest, std::abs(right.data[i]));
        }
        const double step = oracles::spacing(largest, number) / steps;
        for (std::size_t i = row; i < row + kWidth; ++i) {
          found.data[i] = oracles::rounded(std::round(right.data[i] / step) * step, number);
        }
      }
      const Spent all = spent(measured(found, right, right, number));
      EXPECT_EQ(all.within(), steps > 10.0)
          << seed << ": " << all.where << " " << all.error << " of " << all.limit;
    }
  }
}

TEST_P(ErrorBudget, AFactorInTheSmallestHeadIsOutside) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Spent all = after(
        [](auto& data) {
          for (std::size_t i = place(3, 0); i < data.size(); ++i) data[i] *= 1.1;
        },
        GetParam(),
        seed);
    ASSERT_FALSE(all.within()) << seed;
    for (const std::size_t vector : all.wrong) EXPECT_GE(vector, 3U * kRows) << "another head";
  }
}

TEST_P(ErrorBudget, ARowOfZerosIsOutsideAndNamed) {
  const std::int64_t row = 17;
  const Spent all = after(
      [&](auto& data) { std::fill_n(data.begin() + place(2, row), kWidth, 0.0); }, GetParam(), 5);
  EXPECT_EQ(all.wrong, (std::vector<std::size_t>{2U * kRows + row}));
}

// No number is off by much: a step computed in the narrow type where float32 was due.
TEST_P(ErrorBudget, MoreRoundingOnAverageIsOutside) {
  const double u = oracles::unit_roundoff(GetParam());
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  const Spent all = after(
      [&](auto& data) {
        for (double& value : data) {
          value = oracles::rounded(value * (1 + 2 * u * normal(random)), GetParam());
        }
      },
      GetParam(),
      6);
  EXPECT_FALSE(all.within());
  EXPECT_FALSE(all.wrong.empty());
}

TEST_P(ErrorBudget, ANanIsOutside) {
  const Spent all = after([](auto& data) { data[40] = std::nan(""); }, GetParam(), 7);
  EXPECT_FALSE(all.within());
  EXPECT_EQ(all.wrong.front(), 40U / kWidth);
}

// One row carries the whole head, and the yardstick happens to be close there.
TEST_P(ErrorBudget, LuckOfAFewNumbersIsMadeUpForByDraws) {
  int out_at_first = 0;
  int out_with_draws = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Tensor right = [&] {
      Tensor tensor = oracles::zeros({1, 1, kHeads, kRows, kWidth});
      std::mt19937 random(seed);
      std::normal_distribution<double> normal;
      for (std::int64_t head = 0; head < kHeads; ++head) {
        for (std::size_t i = 0; i < 2; ++i) tensor.data[place(head, 5) + i] = normal(random);
      }
      return tensor;
    }();
    const auto computed = [&](unsigned other) {  // four roundings on the way to a number
      return kept(right, GetParam(), 20, 1000 * other + seed);
    };
    const Tensor plain = computed(1);
    const Tensor found = computed(2);
    std::vector<Tensor> draws;
    for (unsigned draw = 1; draw <= harness::checks::kDraws; ++draw)
      draws.push_back(computed(draw + 2));
    const Measured all = measured(found, right, plain, GetParam());
    out_at_first += spent(all).within() ? 0 : 1;
    const auto drawn = [&](int draw) -> const Tensor& {
      return draws.at(static_cast<std::size_t>(draw - 1));
    };
    out_with_draws += spent(all, drawn).within() ? 0 : 1;
  }
  EXPECT_GT(out_at_first, 10);
  EXPECT_LE(out_with_draws, 1);
}

TEST_P(ErrorBudget, NoDrawMakesUpForAFactor) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Tensor right = right_tensor(seed);
    const Tensor plain = kept(right, GetParam(), 2, seed + 100);
    Tensor found = kept(right, GetParam(), 2, seed + 200);
    for (std::size_t i = place(3, 0); i < found.data.size(); ++i) found.data[i] *= 1.02;
    std::vector<Tensor> draws;
    for (unsigned draw = 1; draw <= harness::checks::kDraws; ++draw) {
      draws.push_back(kept(right, GetParam(), 2, seed + 1000 * draw));
    }
    const Spent all = spent(
        measured(found, right, plain, GetParam()),
        [&](int draw) -> const Tensor& { return draws.at(static_cast<std::size_t>(draw - 1)); });
    ASSERT_FALSE(all.within()) << seed;
  }
}

// The biases of a gate: a sum over all tokens that nearly cancels, whose roundings cost up to 8 % of it.
TEST_P(ErrorBudget, AFifthOfThreeNumbersIsOutsideWhereDrawsCostATwelfth) {
  const Tensor right{{3}, {1.0, -0.5, 0.25}};
  const auto times = [&](double factor) {
    Tensor tensor = right;
    for (double& value : tensor.data) value *= factor;
    return tensor;
  };
  const Tensor plain = times(1.01);
  std::vector<Tensor> draws;
  for (int draw = 1; draw <= harness::checks::kDraws; ++draw) {
    draws.push_back(times(1 + 0.01 * draw * (draw % 2 == 0 ? 1 : -1)));
  }
  for (const double factor : {0.8, 0.88, 1.12, 1.2}) {
    const Tensor found = times(factor);
    Measured all{found, right, plain, GetParam()};
    all.factor = harness::checks::kGradientBudget;
    const Spent seen = spent(all, [&](int draw) -> const Tensor& {
      return draws.at(static_cast<std::size_t>(draw - 1));
    });
    EXPECT_EQ(seen.within(), std::abs(factor - 1) < 0.15) << factor;
  }
}

INSTANTIATE_TEST_SUITE_P(OfEveryNarrowType,
                         ErrorBudget,
                         ::testing::Values(Number::bf16, Number::f16));

TEST(ErrorBudgetOfNothing, IsKept) {
  const Tensor none = oracles::zeros({2, 0, 4});
  EXPECT_TRUE(spent({none, none, none, Number::bf16}).within());
  const Tensor zero = oracles::zeros({2, 3});
  EXPECT_TRUE(spent({zero, zero, zero, Number::bf16}).within());
}

// What the yardstick takes in float64 and the judged one in float32 is no error.
TEST(ErrorBudgetOfZeros, SumsMayLeaveAnExactZero) {
  const Tensor zero = oracles::zeros({2, 3});
  Tensor found = zero;
  found.data[1] = 1e-9;
  Measured sums{found, zero, zero, Number::bf16};
  EXPECT_FALSE(spent(sums).within());
  sums.summed = 1e-8;
  EXPECT_TRUE(spent(sums).within());
}

}  // namespace
