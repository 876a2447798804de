// The mean over micro-batches and ranks, and the laws that name another sum.
#include "oracles/training/accumulate.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

struct Sum {
  std::int64_t world;
  std::int64_t accumulate;
  std::vector<std::vector<float>> parts;
  std::vector<float> before;
  std::vector<float> result;

  Sum(std::uint64_t seed, std::int64_t ranks, std::int64_t micros, std::int64_t count = 500)
      : world(ranks), accumulate(micros) {
    Random random(seed);
    for (std::int64_t i = 0; i < world * accumulate; ++i) {
      const Tensor values = random.tensor({count}, 1);
      parts.emplace_back(values.data.begin(), values.data.end());
    }
    const Tensor values = random.tensor({count}, 1);
    before.assign(values.data.begin(), values.data.end());
    result.resize(static_cast<std::size_t>(count));
  }

  [[nodiscard]] AccumulateRecord record() const {
    AccumulateRecord r;
    r.name = "a";
    r.world = world;
    r.accumulate = accumulate;
    for (const std::vector<float>& part : parts) {
      r.parts.push_back(Numbers::of(part));
    }
    r.before = Numbers::of(before);
    r.result = Numbers::of(result);
    return r;
  }

  // Each rank adds up its scaled micro-batches, then the ranks are added up and divided.
  void follow_float32() {
    for (std::size_t i = 0; i < result.size(); ++i) {
      float all = 0;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        float own = 0;
        for (std::int64_t micro = 0; micro < accumulate; ++micro) {
          own += parts[rank * accumulate + micro][i] / static_cast<float>(accumulate);
        }
        all += own;
      }
      result[i] = all / static_cast<float>(world);
    }
  }

  bool follow(std::string_view law, std::int64_t which) {
    const auto values = accumulated_under(law, record(), which);
    if (values) {
      result.assign(values->begin(), values->end());
    }
    return values.has_value();
  }

  [[nodiscard]] Naming naming() const {
    const AccumulateRecord r = record();
    return name_accumulated(std::span(&r, 1), 2);
  }
};

TEST(Accumulation, EveryOrderIsRight) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    Sum sum(seed, random.from(1, 8), random.from(1, 5), 70000);
    sum.follow_float32();
    EXPECT_EQ(sum.naming().text(), "right");
    const AccumulateRecord r = sum.record();
    const Misfit one = judge_accumulated(r, 1);
    EXPECT_EQ(one.judged, 70000);
    EXPECT_EQ(one.worst, judge_accumulated(r, 3).worst);
  }
}

// A sum that divides last leaves float32 on the way to a mean that fits into it.
TEST(Accumulation, AnOverflowIsRightWhereASumOfThePartsOverflows) {
  const float large = 0.7F * std::numeric_limits<float>::max();
  for (const float found : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Sum sum(1, 2, 2);
    sum.follow_float32();
    sum.result[3] = found;
    EXPECT_NE(sum.naming().text(), "right");
    for (const std::size_t part : {0, 1}) sum.parts[part][3] = large;
    EXPECT_EQ(sum.naming().text(), "right");
    sum.result[3] = 0;  // finite, and not the mean
    EXPECT_NE(sum.naming().text(), "right");
  }
}

// A gradient that overflows on its way back makes NaN of others; their step is left out, and the sum is right.
TEST(Accumulation, ANanAmongThePartsMakesTheSumOneAndNothingElseIs) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool infinities : {false, true}) {
    Sum sum(1, 3, 2);
    sum.parts[4][3] = infinities ? infinity : std::nanf("");
    if (infinities) sum.parts[1][3] = -infinity;
    sum.follow_float32();
    ASSERT_TRUE(std::isnan(sum.result[3]));
    EXPECT_EQ(sum.naming().text(), "right");
    for (const float found : {0.0F, infinity}) {  // a part that is passed over, or another sum
      sum.result[3] = found;
      EXPECT_NE(sum.naming().text(), "right") << found;
    }
  }
}

// A law is named as without it, by all other numbers.
TEST(Accumulation, ANanHidesNoLaw) {
  Sum sum(1, 3, 2);
  ASSERT_TRUE(sum.follow("micro_twice", 1));
  sum.parts[4][3] = std::nanf("");
  sum.result[3] = std::nanf("");
  const Naming naming = sum.naming();
  ASSERT_NE(naming.alone(), nullptr) << naming.text();
  EXPECT_EQ(naming.alone()->law.name, "micro_twice");
  EXPECT_EQ(naming.alone()->share, 1);
}

// Sent as bfloat16 and kept in float16: below its smallest normal number a result is rounded to steps of 2^-24.
TEST(Accumulation, TheSmallestNumbersOfTheTypeThatIsKeptBind) {
  const std::vector<std::uint16_t> part = {3};  // steps
  const std::vector<double> other = {4 * 0x1p-24};
  for (const std::uint16_t found : {std::uint16_t{4}, std::uint16_t{4096}}) {
    const std::vector<std::uint16_t> result = {found};
    AccumulateRecord r;
    r.name = "a";
    r.accumulate = 2;
    r.parts = {Numbers(part.data(), 1, Number::f16), Numbers::of(other)};
    r.result = Numbers(result.data(), 1, Number::f16);
    r.number = Number::bf16;
    EXPECT_EQ(judge_accumulated(r).fits(), found == 4) << found;
  }
}

// Sent as bfloat16 and kept in float16: 49408 + 29392 is more than float16 holds, and nothing to bfloat16.
TEST(Accumulation, AnOverflowOfTheTypeThatIsKeptIsRight) {
  constexpr std::uint16_t kInfinity = 0x7c00;
  const std::vector<std::uint16_t> result = {kInfinity};
  for (const double part : {49408.0, 1.0}) {
    const std::vector<double> one = {2 * part};  // its own mean: times the micro-batches
    const std::vector<double> other = {2 * 29392.0};
    AccumulateRecord r;
    r.name = "a";
    r.accumulate = 2;
    r.parts = {Numbers::of(one), Numbers::of(part == 1.0 ? one : other)};
    r.result = Numbers(result.data(), 1, Number::f16);
    r.number = Number::bf16;
    EXPECT_EQ(judge_accumulated(r).fits(), part != 1.0) << part;
  }
}

// World and accumulate as in the law's name; with other numbers some laws coincide.
class AccumulateLaws : public ::testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {};

TEST_P(AccumulateLaws, EveryLawIsNamedAlone) {
  const auto [world, accumulate] = GetParam();
  int named = 0;
  for (const Law& law : accumulate_laws()) {
    for (std::int64_t which = 0; which < std::max(world, accumulate); ++which) {
      Sum sum(1, world, accumulate);
      if (!sum.follow(law.name, which)) {
        continue;
      }
      const Naming naming = sum.naming();
      ASSERT_NE(naming.alone(), nullptr) << law.name << " was told as " << naming.text();
      EXPECT_EQ(naming.alone()->law.name, law.name);
      EXPECT_EQ(naming.alone()->share, 1);
      if (!naming.alone()->detail.empty()) {
        EXPECT_THAT(naming.alone()->detail, ::testing::EndsWith(" " + std::to_string(which)));
      }
      ++named;
    }
  }
  EXPECT_GE(named, 12);
}

INSTANTIATE_TEST_SUITE_P(Sizes,
                         AccumulateLaws,
                         ::testing::Values(std::pair<std::int64_t, std::int64_t>{1, 5},
                                           std::pair<std::int64_t, std::int64_t>{5, 1},
                                           std::pair<std::int64_t, std::int64_t>{4, 3}));

TEST(AccumulateNaming, TheLawMustHoldForEveryWrongRecord) {
  Sum a(1, 2, 3);
  Sum b(2, 2, 3);
  ASSERT_TRUE(a.follow("micro_twice", 1));
  ASSERT_TRUE(b.follow("micro_twice", 1));
  const auto text = [&] {
    const std::vector<AccumulateRecord> both{a.record(), b.record()};
    return name_accumulated(both, 1).text();
  };
  EXPECT_EQ(text(), "micro_twice: one micro-batch is counted twice (micro-batch 1)");
  ASSERT_TRUE(b.follow("micro_twice", 2));
  EXPECT_EQ(text(), "no known law");
  b.follow_float32();
  EXPECT_EQ(text(), "micro_twice: one micro-batch is counted twice (micro-batch 1)");
}

// Two by two, summed over micro-batches or over ranks: the numbers are the same.
TEST(AccumulateNaming, TwoLawsThatAgree) {
  Sum sum(1, 2, 2);
  ASSERT_TRUE(sum.follow("ranks_summed", 0));
  EXPECT_EQ(sum.naming().text(), "no law alone: micros_summed, ranks_summed");
}

TEST(AccumulateNaming, RefusesWhatDoesNotFit) {
  Sum sum(1, 2, 2);
  AccumulateRecord r = sum.record();
  r.parts.pop_back();
  EXPECT_THROW((void)judge_accumulated(r), std::invalid_argument);
  r = sum.record();
  r.parts[2] = r.parts[2].part(0, 499);
  EXPECT_THROW((void)judge_accumulated(r), std::invalid_argument);
  r = sum.record();
  r.before = r.before.part(0, 1);
  EXPECT_THROW((void)judge_accumulated(r), std::invalid_argument);
  EXPECT_THROW((void)accumulated_under("none", sum.record()), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
