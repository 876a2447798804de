// The tokens of a run: values worked out from the page by hand arithmetic (big integers), laws of
// the formulas, and wrong laws that must be named by their own name alone.
#include "oracles/training/data.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/counter_random.h"
#include "oracles/training/data_laws.h"

namespace oracles::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<unsigned char> some_text(std::int64_t bytes) {
  std::vector<unsigned char> text;
  for (std::int64_t i = 0; i < bytes; ++i) {
    text.push_back(static_cast<unsigned char>((i * i + 3 * i) % 251));
  }
  return text;
}

// A text without repetitions, so that no two windows are alike.
std::vector<unsigned char> random_text(std::int64_t bytes) {
  std::vector<unsigned char> text;
  for (std::int64_t i = 0; i < bytes; ++i) {
    text.push_back(static_cast<unsigned char>(draw(99, static_cast<std::uint64_t>(i)) & 0xFFU));
  }
  return text;
}

DataConfig small(Source source, std::int64_t length) {
  return {.source = source,
          .seed = 11,
          .accumulate = 2,
          .world = 2,
          .batch_size = 2,
          .seq_len = length,
          .vocab_size = 50,
          .distance = 3,
          .sharpness = 0.6};
}

TEST(CounterRandom, ValuesOfThePage) {
  EXPECT_EQ(mix(0), 16294208416658607535U);
  EXPECT_EQ(mix(1), 10451216379200822465U);
  EXPECT_EQ(draw(7, 0), 3804069750978119562U);
  EXPECT_EQ(draw(7, 5), 11049549319851577947U);
  EXPECT_EQ(oracles::unit(0), 0);
  EXPECT_EQ(oracles::unit(~std::uint64_t{0}), 1 - 0x1p-53);
}

TEST(Batches, ValuesOfThePage) {
  const BatchPlace place{.step = 2, .micro = 1, .rank = 1};
  EXPECT_THAT(batch_tokens(small(Source::text, 7), place, some_text(200)).data,
              ElementsAre(238, 19, 53, 89, 127, 167, 209, 26, 129, 234, 90, 199, 59, 172));
  EXPECT_THAT(batch_tokens(small(Source::uniform, 7), place).data,
              ElementsAre(4, 2, 48, 36, 32, 38, 0, 41, 2, 5, 33, 21, 9, 13));
  EXPECT_THAT(batch_tokens(small(Source::long_range, 9), place).data,
              ElementsAre(4, 2, 48, 4, 2, 48, 0, 2, 7, 41, 2, 5, 33, 21, 9, 33, 21, 47));
}

TEST(Batches, EverySequenceOfARunHasItsOwnNumber) {
  const DataConfig c = small(Source::uniform, 4);
  std::set<std::uint64_t> numbers;
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (std::int64_t at = 0; at < 8; ++at) {
      numbers.insert(sequence_number(c, {step, at / 4, at / 2 % 2}, at % 2));
    }
  }
  EXPECT_EQ(numbers.size(), 24u);
  EXPECT_EQ(*numbers.begin(), 0u);
  EXPECT_EQ(*numbers.rbegin(), 23u);
}

TEST(Batches, ReplicatedOnesAreThoseOfTheFirstRank) {
  DataConfig c = small(Source::uniform, 7);
  const IntTensor first = batch_tokens(c, {2, 1, 0});
  EXPECT_NE(batch_tokens(c, {2, 1, 1}).data, first.data);
  c.replicated = true;
  EXPECT_EQ(batch_tokens(c, {2, 1, 1}).data, first.data);
  EXPECT_EQ(batch_tokens(c, {2, 1, 0}).data, first.data);
}

// 28 windows: a stride that shares a factor with them would come back too early.
TEST(Batches, EveryWindowComesOnceBeforeAnyComesAgain) {
  const std::vector<unsigned char> text = some_text(200);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    DataConfig c = small(Source::text, 7);
    c.seed = seed;
    std::set<std::int64_t> begins;
    for (std::uint64_t n = 0; n < 28; ++n) {
      const std::int64_t begin = window_begin(c, text, n);
      EXPECT_EQ(begin % 7, 0);
      begins.insert(begin);
      EXPECT_EQ(window_begin(c, text, n + 28), begin);
    }
    EXPECT_EQ(begins.size(), 28u);
    EXPECT_EQ(*begins.rbegin(), 27 * 7);
  }
}

TEST(Batches, LongRangeRepeatsAsOftenAsItSays) {
  DataConfig c = small(Source::long_range, 20000);
  c.vocab_size = 1 << 20;  // that a token repeats by chance is out of the question
  const IntTensor tokens = batch_tokens(c, {});
  std::int64_t repeated = 0;
  for (std::int64_t s = 3; s < 20000; ++s) {
    repeated += tokens.data[s] == tokens.data[s - 3] ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(repeated) / 19997, 0.6, 0.02);  // 6 standard deviations
}

TEST(LossFloor, IsTheEntropyOfTheSource) {
  DataConfig c = small(Source::long_range, 20000);
  EXPECT_EQ(loss_floor(small(Source::text, 7), {}), std::nullopt);
  EXPECT_EQ(loss_floor(small(Source::uniform, 7), {}), std::log(50.0));
  const double hit = 0.6 + 0.4 / 50;
  const double miss = 0.4 / 50;
  const double entropy = -hit * std::log(hit) - 49 * miss * std::log(miss);
  EXPECT_NEAR(loss_floor(c, batch_tokens(c, {})).value(), entropy, 0.05);
  c.sharpness = 0;
  EXPECT_NEAR(loss_floor(c, batch_tokens(c, {})).value(), std::log(50.0), 1e-11);
}

TEST(LossFloor, OfFiveTokensByHand) {
  DataConfig c = small(Source::long_range, 5);
  const double uniform = std::log(50.0);
  const double wanted = (2 * uniform - std::log(0.4 / 50 + 0.6) - std::log(0.4 / 50)) / 4;
  EXPECT_NEAR(loss_floor(c, {{1, 5}, {8, 9, 7, 8, 8}}).value(), wanted, 1e-14);
  const double of_three = (2 * uniform - std::log(0.4 / 50 + 0.6)) / 3;
  EXPECT_NEAR(loss_floor(c, {{1, 5}, {8, 9, 7, 8, 8}}, {{3}}).value(), of_three, 1e-14);
}

// The batches of a run: three steps, every micro-batch and rank.
template <typename Tokens>
std::vector<RecordedBatch> recorded(const DataConfig& c, Tokens tokens) {
  std::vector<RecordedBatch> batches;
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (std::int64_t micro = 0; micro < c.accumulate; ++micro) {
      for (std::int64_t rank = 0; rank < c.world; ++rank) {
        const BatchPlace place{step, micro, rank};
        if (auto batch = tokens(place)) {
          batches.push_back({place, std::move(*batch)});
        }
      }
    }
  }
  return batches;
}

DataConfig large(Source source) {
  return {.source = source,
          .seed = 5,
          .accumulate = 3,
          .world = 3,
          .batch_size = 3,
          .seq_len = 24,
          .vocab_size = 9,
          .distance = 5,
          .sharpness = 0.7};
}

class DataLaws : public ::testing::TestWithParam<Source> {};

TEST_P(DataLaws, RightBatchesAreNamedByNone) {
  const std::vector<unsigned char> text = random_text(5003);
  const DataConfig c = large(GetParam());
  const auto batches = recorded(
      c, [&](const BatchPlace& place) { return std::optional(batch_tokens(c, place, text)); });
  const Naming naming = name_batches(c, batches, text);
  EXPECT_TRUE(naming.right.fits());
  EXPECT_EQ(naming.right.judged, 27 * 3 * 24);
  EXPECT_TRUE(naming.fitting.empty());
  EXPECT_EQ(naming.text(), "right");
}

TEST_P(DataLaws, EveryLawIsNamedAlone) {
  const std::vector<unsigned char> text = random_text(5003);
  const DataConfig c = large(GetParam());
  int named = 0;
  for (const Law& law : data_laws()) {
    const auto batches =
        recorded(c, [&](const BatchPlace& place) { return batch_under(law.name, c, place, text); });
    if (batches.empty()) {
      continue;  // no meaning for this source
    }
    const Naming naming = name_batches(c, batches, text);
    EXPECT_FALSE(naming.right.fits()) << law.name;
    ASSERT_NE(naming.alone(), nullptr) << law.name << " was told as " << naming.text();
    EXPECT_EQ(naming.alone()->law.name, law.name);
    EXPECT_EQ(naming.alone()->share, 1) << law.name;
    ++named;
  }
  EXPECT_GE(named, 20);
}

INSTANTIATE_TEST_SUITE_P(Sources,
                         DataLaws,
                         ::testing::Values(Source::text, Source::uniform, Source::long_range));

// One rank alone reads the wrong sequences.
TEST(DataLawNaming, ALawThatHoldsOnOneRankOnly) {
  const DataConfig c = large(Source::uniform);
  const auto batches = recorded(c, [&](const BatchPlace& place) {
    return place.rank == 1 ? batch_under("data_step_ahead", c, place)
                           : std::optional(batch_tokens(c, place));
  });
  const Naming naming = name_batches(c, batches);
  EXPECT_THAT(naming.text(), HasSubstr("data_step_ahead"));
  ASSERT_NE(naming.alone(), nullptr);
  EXPECT_NEAR(naming.alone()->share, 1.0 / 3, 0.02);
}

TEST(DataLawNaming, AWrongTokenHasNoLaw) {
  const DataConfig c = large(Source::long_range);
  auto batches =
      recorded(c, [&](const BatchPlace& place) { return std::optional(batch_tokens(c, place)); });
  std::int64_t& token = batches[4].tokens.data[2];
  token = (token + 1) % c.vocab_size;
  const Naming naming = name_batches(c, batches);
  EXPECT_EQ(naming.right.wrong, 1);
  EXPECT_EQ(naming.right.first, 4 * 72 + 2);
  EXPECT_EQ(naming.text(), "no known law");
}

TEST(DataLawNaming, AnotherSharpnessIsMeasured) {
  const DataConfig c = large(Source::long_range);
  DataConfig other = c;
  other.sharpness = 0.4;
  const auto batches = recorded(
      c, [&](const BatchPlace& place) { return std::optional(batch_tokens(other, place)); });
  const Naming naming = name_batches(c, batches);
  ASSERT_NE(naming.alone(), nullptr);
  EXPECT_EQ(naming.alone()->law.name, "data_sharpness_other");
  EXPECT_THAT(naming.alone()->detail, HasSubstr("between 0.39"));
  EXPECT_THAT(naming.alone()->detail, HasSubstr("and 0.40"));
}

// With one rank, one micro-batch and one row, several mistakes give the same tokens.
TEST(DataLawNaming, SeveralLawsAreNoNamedLaw) {
  DataConfig c = large(Source::uniform);
  c.world = c.accumulate = c.batch_size = 1;
  const auto batches = recorded(
      c, [&](const BatchPlace& place) { return batch_under("data_step_ahead", c, place); });
  const Naming naming = name_batches(c, batches);
  EXPECT_EQ(naming.alone(), nullptr);
  EXPECT_EQ(naming.text(), "no law alone: data_step_ahead, data_sequence_ahead");
}

TEST(DataLawNaming, ABatchOfAnotherShapeIsWrong) {
  const DataConfig c = large(Source::uniform);
  const std::vector<RecordedBatch> batches{{{}, filled<std::int64_t>({3, 23}, 0)}};
  const Naming naming = name_batches(c, batches);
  EXPECT_FALSE(naming.right.fits());
  EXPECT_TRUE(naming.fitting.empty());
}

std::string refusal(const DataConfig& c, const BatchPlace& place = {}, Text text = {}) {
  try {
    (void)batch_tokens(c, place, text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "not refused";
}

TEST(DataInputs, RefusesWhatDoesNotFit) {
  DataConfig c = large(Source::uniform);
  EXPECT_THAT(refusal(c, {.step = 0}), HasSubstr("step = 0"));
  EXPECT_THAT(refusal(c, {.micro = 3}), HasSubstr("micro-batch = 3, wanted 0 to 2"));
  EXPECT_THAT(refusal(c, {.rank = -1}), HasSubstr("rank = -1"));
  c.vocab_size = 0;
  EXPECT_THAT(refusal(c), HasSubstr("vocab_size = 0"));
  c = large(Source::long_range);
  c.distance = 0;
  EXPECT_THAT(refusal(c), HasSubstr("distance = 0"));
  c.distance = 1;
  c.sharpness = NAN;
  EXPECT_THAT(refusal(c), HasSubstr("sharpness"));
  c = large(Source::text);
  const std::vector<unsigned char> text = some_text(27 * 24 - 1);
  EXPECT_THAT(refusal(c, {}, text), HasSubstr("windows of the text = 26, wanted 27 or more"));
  EXPECT_THROW((void)batch_under("no_such_law", c, {}, text), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
