// The choice of blocks, its margin, and which other choices rounding explains.
#include "oracles/attention/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/oracles/random_layer.h"

namespace oracles {
namespace {

using Blocks = std::vector<std::int64_t>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Blocks of 4 tokens; block 0 and the last two are forced; two places are left.
AttentionConfig five_of_many() {
  AttentionConfig c;
  c.l_sel = 4;
  c.n_sel = 5;
  return c;
}

TEST(Select, TakesTheBestCompleteBlocks) {
  const std::vector<double> scores{9, 1, 3, 2, 4, 9, 9};
  const Selection found = select_blocks(five_of_many(), 27, scores);
  EXPECT_EQ(found.blocks, (Blocks{0, 2, 4, 5, 6}));
  EXPECT_EQ(found.margin, 1);
}

TEST(Select, ThePartialCurrentBlockIsForcedAndTheOneBeforeTheLocalOnesIsACandidate) {
  const std::vector<double> scores{0, 0, 0, 7, 0, 0, 0};
  EXPECT_EQ(select_blocks(five_of_many(), 24, scores).blocks, (Blocks{0, 1, 3, 5, 6}));
}

TEST(Select, EarlyQueriesTakeWhatThereIs) {
  const std::vector<double> scores(3, 1.0);
  for (const auto& [t, wanted] :
       {std::pair<std::int64_t, Blocks>{0, {0}}, {3, {0}}, {4, {0, 1}}, {11, {0, 1, 2}}}) {
    const Selection found = select_blocks(five_of_many(), t, scores);
    EXPECT_EQ(found.blocks, wanted) << t;
    EXPECT_EQ(found.margin, kInfinity) << t;
  }
}

TEST(Select, ExactTiesGoToTheLowerIndex) {
  const std::vector<double> scores{0, 2, 2, 2, 2, 0, 0};
  const Selection found = select_blocks(five_of_many(), 27, scores);
  EXPECT_EQ(found.blocks, (Blocks{0, 1, 2, 5, 6}));
  EXPECT_EQ(found.margin, 0);
}

TEST(Select, ANanIsTheLowestScore) {
  const std::vector<double> scores{0, NAN, 1, NAN, 2, 0, 0};
  EXPECT_EQ(select_blocks(five_of_many(), 27, scores).blocks, (Blocks{0, 2, 4, 5, 6}));
}

TEST(Select, OnlyTheCurrentBlockForced) {
  AttentionConfig c = five_of_many();
  c.init_blocks = 0;
  c.local_blocks = 1;
  c.n_sel = 2;
  EXPECT_EQ(select_blocks(c, 11, std::vector<double>{5, 6, 9}).blocks, (Blocks{1, 2}));
  EXPECT_TRUE(is_forced(c, 11, 2));
  EXPECT_FALSE(is_forced(c, 11, 1));
  EXPECT_FALSE(is_candidate(c, 10, 2));
}

class Compare : public ::testing::Test {
 protected:
  Comparison compare(const Blocks& taken) {
    return compare_selection(five_of_many(), 27, scores_, bounds_, taken);
  }
  // The oracle takes 4 and 2; 3 lies 0.5 below 2.
  std::vector<double> scores_{9, 1, 3, 2.5, 4, 9, 9};
  std::vector<double> bounds_ = std::vector<double>(7, 0.2);
};

TEST_F(Compare, TheSameBlocks) {
  EXPECT_EQ(compare({0, 2, 4, 5, 6}).agreement, Agreement::same);
}

TEST_F(Compare, AnotherBlockBeyondTheBoundsIsWrong) {
  const Comparison found = compare({0, 3, 4, 5, 6});
  EXPECT_EQ(found.agreement, Agreement::wrong);
  EXPECT_EQ(found.gap, 0.5);
  EXPECT_EQ(found.bound, 0.4);
}

TEST_F(Compare, AnotherBlockWithinTheBoundsIsATie) {
  bounds_[3] = 0.3;
  EXPECT_EQ(compare({0, 3, 4, 5, 6}).agreement, Agreement::tied);
  EXPECT_EQ(compare({0, 2, 3, 5, 6}).agreement, Agreement::wrong);  // 3 in place of 4
}

TEST_F(Compare, EveryPairMustBeExplained) {
  bounds_[3] = 0.3;
  // 1 and 3 in place of 2 and 4: 3 for 2 would do, 1 for 4 does not.
  const Comparison found = compare({0, 1, 3, 5, 6});
  EXPECT_EQ(found.agreement, Agreement::wrong);
  EXPECT_EQ(found.gap, 3);
}

TEST_F(Compare, MalformedChoicesAreWrong) {
  for (const Blocks& taken : {Blocks{0, 4, 2, 5, 6},   // order
                              Blocks{0, 2, 2, 5, 6},   // twice
                              Blocks{0, 2, 5, 6, -1},  // one too few
                              Blocks{0, 2, -1, 5, 6},  // a gap
                              Blocks{0, 2, 4, 5, 7},   // after the query
                              Blocks{1, 2, 4, 5, 6},   // a forced block left out
                              Blocks{0, 2, 5, 6, 1000}}) {
    EXPECT_EQ(compare(taken).agreement, Agreement::wrong);
  }
}

TEST_F(Compare, ANanExplainsNothing) {
  bounds_[3] = NAN;
  EXPECT_EQ(compare({0, 3, 4, 5, 6}).agreement, Agreement::wrong);
  bounds_[3] = kInfinity;
  EXPECT_EQ(compare({0, 3, 4, 5, 6}).agreement, Agreement::tied);
}

Blocks padded(Blocks blocks, std::int64_t count) {
  blocks.resize(static_cast<std::size_t>(count), -1);
  return blocks;
}

// What is chosen under scores moved within the bounds is always explained; what the oracle would
// choose is what it compares with.
TEST(CompareRandom, ChoicesUnderMovedScoresAreExplained) {
  testing::Random random(5);
  int ties = 0;
  for (int round = 0; round < 2000; ++round) {
    AttentionConfig c = testing::random_config(random);
    const std::int64_t t = random.from(0, 40);
    std::vector<double> scores;
    std::vector<double> moved;
    std::vector<double> bounds;
    for (std::int64_t block = 0; block <= t / c.l_sel; ++block) {
      scores.push_back(random.normal());
      bounds.push_back(std::abs(random.normal()) / 4);
      moved.push_back(scores.back() + bounds.back() * std::sin(random.normal()));
    }
    const Blocks other = padded(select_blocks(c, t, moved).blocks, c.n_sel);
    const Comparison found = compare_selection(c, t, scores, bounds, other);
    ASSERT_NE(found.agreement, Agreement::wrong) << round;
    ties += found.agreement == Agreement::tied ? 1 : 0;
  }
  EXPECT_GT(ties, 50);
}

bool has(const Blocks& blocks, std::int64_t block) {
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

// Any other choice, against every pair of it looked at alone.
TEST(CompareRandom, AgreesWithEveryPairLookedAtAlone) {
  testing::Random random(6);
  int counts[3] = {0, 0, 0};
  for (int round = 0; round < 2000; ++round) {
    AttentionConfig c = testing::random_config(random);
    const std::int64_t t = random.from(0, 40);
    std::vector<double> scores;
    std::vector<double> any;
    std::vector<double> bounds;
    for (std::int64_t block = 0; block <= t / c.l_sel; ++block) {
      scores.push_back(random.normal());
      any.push_back(random.normal());
      bounds.push_back(2 * std::abs(random.normal()));
    }
    const Blocks own = select_blocks(c, t, scores).blocks;
    const Blocks other = select_blocks(c, t, any).blocks;
    Agreement wanted = own == other ? Agreement::same : Agreement::tied;
    for (std::int64_t left = 0; left <= t / c.l_sel; ++left) {
      for (const std::int64_t block : other) {
        const bool pair =
            is_candidate(c, t, left) && is_candidate(c, t, block) && !has(other, left);
        if (pair && scores[left] - bounds[left] > scores[block] + bounds[block]) {
          wanted = Agreement::wrong;
        }
      }
    }
    const Comparison found = compare_selection(c, t, scores, bounds, padded(other, c.n_sel));
    ASSERT_EQ(found.agreement, wanted) << round;
    ++counts[static_cast<int>(wanted)];
  }
  EXPECT_GT(std::min({counts[0], counts[1], counts[2]}), 50);
}

}  // namespace
}  // namespace oracles
