// What a micro-batch counts in its step: the sum over all scored tokens of a step over their number, whatever they are shared
// out to; and wrong shares, each named by its own name alone.
#include "oracles/training/shares.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/counter_random.h"

namespace oracles::testing {
namespace {

using ::testing::ElementsAre;

DataConfig ragged(std::int64_t world, std::int64_t accumulate) {
  return {.seed = 11,
          .accumulate = accumulate,
          .world = world,
          .batch_size = 2,
          .seq_len = 7,
          .ragged = true};
}

TEST(ScoredPositions, ValuesOfThePage) {
  EXPECT_THAT(scored_positions(ragged(2, 2), {3, 1, 1}), ElementsAre(2, 2));
  EXPECT_THAT(scored_positions(ragged(2, 2), {3, 0, 1}), ElementsAre(4, 5));
  DataConfig all = ragged(2, 2);
  all.ragged = false;
  EXPECT_THAT(scored_positions(all, {3, 1, 1}), ElementsAre(6, 6));
  const TokenCounts counts = token_counts(ragged(2, 2), {3, 1, 1});
  EXPECT_EQ(counts.own, 4);
  EXPECT_EQ(counts.of_rank, 13);
  EXPECT_EQ(counts.of_step, 25);
}

TEST(ScoredPositions, TheLastTokensOfDocumentsAreNone) {
  DataConfig packed = ragged(2, 2);
  packed.ragged = false;
  packed.documents = 3;
  const TokenCounts counts = token_counts(packed, {3, 1, 1});
  EXPECT_EQ(counts.own, 2 * (7 - 3));
  EXPECT_EQ(counts.of_step, 4 * counts.own);
  EXPECT_EQ(share_of(packed, {3, 1, 1}), 0.5);
}

TEST(ScoredPositions, EveryNumberComes) {
  DataConfig c = ragged(1, 1);
  std::vector<int> seen(7, 0);
  for (std::int64_t step = 1; step <= 3000; ++step) {
    for (const std::int64_t scored : scored_positions(c, {step, 0, 0})) {
      ++seen.at(static_cast<std::size_t>(scored));
    }
  }
  EXPECT_EQ(seen[0], 0);
  for (int i = 1; i < 7; ++i)
    EXPECT_NEAR(seen[static_cast<std::size_t>(i)], 1000, 150) << i;  // 5 deviations
}

// Token losses of any size: the mean over the ranks of the sum over their micro-batches is that over all scored tokens.
TEST(Shares, AddUpToTheMeanOverAllScoredTokens) {
  const DataConfig c = ragged(3, 4);
  double sum = 0;
  double found = 0;
  std::int64_t tokens = 0;
  for (std::int64_t at = 0; at < 12; ++at) {
    const BatchPlace place{5, at % 4, at / 4};
    const std::int64_t own = token_counts(c, place).own;
    double micro = 0;
    for (std::int64_t i = 0; i < own; ++i) {
      micro += unit(draw(static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(i)));
    }
    sum += micro;
    tokens += own;
    found += share_of(c, place) * micro / static_cast<double>(own) / 3;
  }
  EXPECT_NEAR(found, sum / static_cast<double>(tokens), 1e-14);
}

TEST(Shares, WithoutAMaskAllCountTheSame) {
  DataConfig c = ragged(3, 4);
  c.ragged = false;
  EXPECT_EQ(share_of(c, {1, 3, 2}), 0.25);
  EXPECT_FALSE(share_under("mean_of_means", c, {1, 3, 2}).has_value());
  EXPECT_EQ(share_under("loss_not_divided", c, {1, 3, 2}), 1);
  EXPECT_EQ(share_under("loss_divided_twice", c, {1, 3, 2}), 1.0 / 16);
}

// In plain words: the weights that a mean of means gives.
TEST(Shares, WrongOnesByHand) {
  const DataConfig c = ragged(2, 2);
  const BatchPlace place{3, 1, 1};
  EXPECT_NEAR(share_under("mean_of_means", c, place).value(), 0.5, 1e-15);
  EXPECT_NEAR(share_under("mean_of_rank_means", c, place).value(), 4.0 / 13, 1e-15);
  EXPECT_NEAR(share_under("mean_of_micro_means", c, place).value(), 13.0 / 25, 1e-15);
  EXPECT_NEAR(share_of(c, place), 2 * 4.0 / 25, 1e-15);
}

TEST(Shares, EveryLawIsNamedAlone) {
  const DataConfig c = ragged(2, 3);
  const BatchPlace place{1, 1, 0};
  for (const Law& law : share_laws()) {
    const double share = share_under(law.name, c, place).value();
    const Naming naming = name_share(share * (1 + 0x1p-22), c, place);
    ASSERT_NE(naming.alone(), nullptr) << law.name << ": " << naming.fitting.size();
    EXPECT_EQ(naming.alone()->law.name, law.name);
  }
  EXPECT_TRUE(name_share(share_of(c, place), c, place).fitting.empty());
  EXPECT_TRUE(name_share(NAN, c, place).fitting.empty());
}

// Of one micro-batch or one rank there is no mean to be wrong.
TEST(Shares, OfOneMicroBatchOrOneRank) {
  EXPECT_FALSE(share_under("mean_of_micro_means", ragged(2, 1), {1, 0, 0}).has_value());
  EXPECT_FALSE(share_under("mean_of_rank_means", ragged(1, 2), {1, 0, 0}).has_value());
  EXPECT_FALSE(share_under("mean_of_means", ragged(1, 2), {1, 0, 0}).has_value());
  EXPECT_EQ(share_of(ragged(1, 1), {1, 0, 0}), 1);
}

}  // namespace
}  // namespace oracles::testing
