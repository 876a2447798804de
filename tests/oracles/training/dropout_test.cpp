// Masks of residual dropout: values worked out from the page, the share of what is kept, and wrong masks named by their own name.
#include "oracles/training/dropout.h"

#include <cmath>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracles/golden.h"
#include "tests/oracles/model/stage_laws_case.h"

namespace oracles::testing {
namespace {

DataConfig dropout_data(std::int64_t length) {
  return {.seed = 11, .accumulate = 2, .world = 2, .batch_size = 2, .seq_len = length};
}

TEST(DropoutMasks, ValuesOfThePage) {
  const Tensor factors = dropout_factors(dropout_data(2), {{2, 1, 1}, 1, 0}, 3, 0.5);
  EXPECT_EQ(factors.shape, (Shape{4, 3}));
  EXPECT_THAT(factors.data, ::testing::ElementsAre(2, 0, 2, 0, 2, 0, 0, 2, 2, 2, 2, 2));
}

TEST(DropoutMasks, KeepTheirShareAndTheMean) {
  const Tensor factors = dropout_factors(dropout_data(100), {{1, 0, 0}, 0, 1}, 100, 0.2);
  double sum = 0;
  for (const double factor : factors.data) {
    EXPECT_TRUE(factor == 0 || factor == 1.25);
    sum += factor;
  }
  EXPECT_NEAR(sum / 20000, 1, 5 * 0.5 / std::sqrt(20000.0));  // 5 standard deviations
}

TEST(DropoutMasks, EveryPlaceHasItsOwn) {
  std::set<std::vector<double>> seen;
  for (std::int64_t at = 0; at < 64; ++at) {
    const DropoutPlace place{{1 + at / 32, at / 16 % 2, at / 8 % 2}, at / 2 % 4, at % 2};
    seen.insert(dropout_factors(dropout_data(16), place, 8, 0.5).data);
  }
  EXPECT_EQ(seen.size(), 64u);
}

class DropoutLaws : public ::testing::TestWithParam<Number> {};

TEST_P(DropoutLaws, EveryLawIsNamedAlone) {
  Random random(3);
  DropoutInputs in;
  in.branch = drawn(random, {12, 20}, 1, GetParam());
  in.data = dropout_data(6);
  in.place = {{2, 0, 1}, 1, 0};
  in.p = 0.3;
  in.rounding = Rounding::of(GetParam());
  const Expected right = expected_dropout(in);
  const auto naming = [&](const Tensor& found) { return dropout_laws().name(found, in); };
  EXPECT_EQ(naming(kept(right, GetParam(), 1)).text(), "right");
  const auto under = [&](std::string_view law, std::size_t choice) {
    return dropout_laws().under(law, choice, in);
  };
  EXPECT_EQ(try_every_law({dropout_laws().laws(), under, naming, GetParam()}), 8);
}

INSTANTIATE_TEST_SUITE_P(Types, DropoutLaws, ::testing::Values(Number::f32, Number::bf16));

}  // namespace
}  // namespace oracles::testing
