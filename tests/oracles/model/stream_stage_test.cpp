// The residual stream and the embedding by their recorded rows.
#include "oracles/model/stream_stage.h"

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracles/model/stage_laws_case.h"

namespace oracles::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StreamLaws : public ::testing::TestWithParam<Number> {};

TEST_P(StreamLaws, EveryLawOfTheResidualIsNamedAlone) {
  Random random(1);
  ResidualInputs in;
  in.stream = drawn(random, {6, 20}, 1, GetParam());
  in.branch = drawn(random, {6, 20}, 1, GetParam());
  in.others = {{"norm1", drawn(random, {6, 20}, 1, GetParam())},
               {"block 0", drawn(random, {6, 20}, 1, GetParam())}};
  in.rounding = Rounding::of(GetParam());
  EXPECT_EQ(try_library(residual_laws(), in, expected_residual(in), GetParam()), 14);
}

struct Embedding {
  Tensor table, head, dx;
  EmbeddingInputs in;
  EmbeddingGradientInputs back;

  explicit Embedding(Number number) {
    Random random(2);
    table = drawn(random, {11, 9}, 1, number);
    head = drawn(random, {11, 9}, 1, number);
    dx = drawn(random, {30, 9}, 1, number);
    in.tokens = filled<std::int64_t>({2, 15}, 0);
    for (std::int64_t& token : in.tokens.data) {
      token = random.from(0, 10);
    }
    in.tokens.data[4] = 0;
    in.rows.resize(30);
    std::iota(in.rows.begin(), in.rows.end(), 0);
    in.table = matrix_of(table);
    in.head = matrix_of(head);
    in.rounding = Rounding::of(number);
    back.tokens = in.tokens;
    back.dx = matrix_of(dx);
    back.vocab_size = 11;
    back.rounding = in.rounding;
    back.scale = 0.5;
  }
  Embedding(const Embedding&) = delete;
};

TEST_P(StreamLaws, EveryLawOfTheEmbeddingIsNamedAlone) {
  const Embedding e(GetParam());
  EXPECT_EQ(try_library(embedding_laws(), e.in, expected_embedding(e.in), GetParam()), 11);
}

TEST_P(StreamLaws, EveryLawOfItsGradientIsNamedAlone) {
  const Embedding e(GetParam());
  EXPECT_EQ(try_library(
                embedding_gradient_laws(), e.back, expected_embedding_gradient(e.back), GetParam()),
            7);
}

// With a tied head's part: its laws are two more.
TEST_P(StreamLaws, EveryLawOfATiedGradientIsNamedAlone) {
  Random random(9);
  Embedding e(GetParam());
  const Tensor dlogits = drawn(random, {30, 11}, 1, GetParam());
  const Tensor normed = drawn(random, {30, 9}, 1, GetParam());
  e.back.scale = 1;
  e.back.dlogits = matrix_of(dlogits);
  e.back.normed = matrix_of(normed);
  const Expected right = expected_embedding_gradient(e.back);
  for (std::int64_t v = 0; v < 11; ++v) {
    for (std::int64_t c = 0; c < 9; ++c) {
      double wanted = 0;
      for (std::int64_t r = 0; r < 30; ++r) {
        wanted += dlogits.data[r * 11 + v] * normed.data[r * 9 + c] +
                  (e.in.tokens.data[r] == v ? e.dx.data[r * 9 + c] : 0);
      }
      EXPECT_NEAR(right.value.data[v * 9 + c], wanted, 1e-12);
    }
  }
  EXPECT_GE(try_library(embedding_gradient_laws(), e.back, right, GetParam()), 8);
}

// Of a peaked softmax: a first term carries the sum, and each of the others is lost below its last digit.
TEST(TiedGradient, BoundsHoldWhereOneTermCarriesTheSum) {
  constexpr std::int64_t kTerms = 126;
  constexpr std::int64_t kVocabulary = 64;
  constexpr std::int64_t kColumns = 16;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> places(0.0F, 1.0F);
  Tensor dlogits = zeros({kTerms, kVocabulary});
  Tensor normed = zeros({kTerms, kColumns});
  for (double& x : normed.data) x = 1.0F + 0.25F * places(random);
  for (std::int64_t r = 0; r < kTerms; ++r) {
    for (std::int64_t v = 0; v < kVocabulary; ++v) {
      const float digits = r == 0 ? 0.0F : -24.4F - 0.2F * places(random);
      dlogits.data[r * kVocabulary + v] = std::exp2(digits);
    }
  }
  const Tensor dx = zeros({kTerms, kColumns});
  EmbeddingGradientInputs back{{{1, kTerms}, std::vector<std::int64_t>(kTerms, 0)},
                               matrix_of(dx),
                               kVocabulary,
                               Rounding::of(Number::f32),
                               1,
                               matrix_of(dlogits),
                               matrix_of(normed)};
  const Expected right = expected_embedding_gradient(back);
  Misfit misfit;
  for (std::int64_t v = 0; v < kVocabulary; ++v) {
    for (std::int64_t c = 0; c < kColumns; ++c) {
      float sum = 0.0F;
      for (std::int64_t r = 0; r < kTerms; ++r) {
        sum +=
            static_cast<float>(dlogits.data[r * kVocabulary + v] * normed.data[r * kColumns + c]);
      }
      const std::int64_t i = v * kColumns + c;
      misfit.add(i, sum, right.value.data[i], right.bound.data[i]);
      EXPECT_LT(right.bound.data[i],
                2e-5 * right.value.data[i]);  // below any mistake worth telling
    }
  }
  EXPECT_TRUE(misfit.fits());
}

TEST(TiedGradient, OneWrongNumberIsNoFactor) {
  const Embedding e(Number::f32);
  const Expected right = expected_embedding_gradient(e.back);
  Tensor found = right.value;
  std::size_t smallest = 0;
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    if (std::abs(found.data[i]) < std::abs(found.data[smallest])) smallest = i;
  }
  found.data[smallest] += 1.5 * right.bound.data[smallest];
  for (const LawFit& law : embedding_gradient_laws().name(found, e.back).fitting) {
    EXPECT_NE(law.law.name, "embed_gradient_factor");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StreamLaws, ::testing::Values(Number::f32, Number::bf16));

TEST(EmbeddingStage, ByHand) {
  const Tensor table{{3, 2}, {0, 1, 10, 11, 20, 21}};
  EmbeddingInputs in;
  in.tokens = {{2, 2}, {2, 0, 1, 2}};
  in.rows = {3, 1};
  in.table = matrix_of(table);
  EXPECT_THAT(expected_embedding(in).value.data, ElementsAre(20, 21, 0, 1));
  const Tensor dx{{4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
  const EmbeddingGradientInputs back{in.tokens, matrix_of(dx), 3, in.rounding, 1};
  EXPECT_THAT(expected_embedding_gradient(back).value.data, ElementsAre(3, 4, 5, 6, 8, 10));
}

// The gradient's sum is that of dx, whatever the tokens: nothing is lost and nothing counted twice.
TEST(EmbeddingStage, ItsGradientLosesNothing) {
  const Embedding e(Number::f32);
  const Expected gradient = expected_embedding_gradient(e.back);
  const double sum = std::accumulate(gradient.value.data.begin(), gradient.value.data.end(), 0.0);
  EXPECT_NEAR(sum, 0.5 * std::accumulate(e.dx.data.begin(), e.dx.data.end(), 0.0), 1e-12);
}

// A float32 sum in another order than the oracle's.
TEST(EmbeddingStage, BoundsHoldForFloat32) {
  Embedding e(Number::f32);
  std::vector<float> gradient(11 * 9, 0.0F);
  for (std::int64_t r = 29; r >= 0; --r) {
    for (std::int64_t c = 0; c < 9; ++c) {
      gradient[e.in.tokens.data[r] * 9 + c] += static_cast<float>(e.dx.data[r * 9 + c] * 0.5);
    }
  }
  const Misfit misfit = misfit_of(Numbers::of(gradient), expected_embedding_gradient(e.back));
  EXPECT_TRUE(misfit.fits());
  EXPECT_GT(misfit.worst, 0.05);
}

// A branch that is computed, not recorded, may be off by its bound, and no further.
TEST(StreamNaming, ABranchWithABound) {
  Random random(4);
  ResidualInputs in;
  in.stream = drawn(random, {2, 20}, 1, Number::f32);
  in.branch = drawn(random, {2, 20}, 1, Number::f32);
  Tensor found = expected_residual(in).value;
  for (double& value : found.data) {
    value += 1e-3;
  }
  EXPECT_FALSE(residual_laws().name(found, in).right.fits());
  in.branch_bound = filled<double>({2, 20}, 1.001e-3);
  EXPECT_TRUE(residual_laws().name(found, in).right.fits());
  in.branch_bound = filled<double>({2, 20}, 0.999e-3);
  EXPECT_FALSE(residual_laws().name(found, in).right.fits());
}

TEST(StreamNaming, ALawThatHoldsInOneRow) {
  Random random(3);
  ResidualInputs in;
  in.stream = drawn(random, {6, 20}, 1, Number::f32);
  in.branch = drawn(random, {6, 20}, 1, Number::f32);
  Tensor found = kept(expected_residual(in), Number::f32, 1);
  std::copy_n(in.stream.data.begin() + 40, 20, found.data.begin() + 40);
  EXPECT_THAT(residual_laws().name(found, in).text(), HasSubstr("residual_branch_missing"));
}

TEST(StreamStages, RefuseWhatDoesNotFit) {
  Embedding e(Number::f32);
  e.in.tokens.data[3] = 11;
  EXPECT_THROW((void)expected_embedding(e.in), std::invalid_argument);
  e.back.dx.rows = 29;
  EXPECT_THROW((void)expected_embedding_gradient(e.back), std::invalid_argument);
  ResidualInputs residual;
  residual.stream = zeros({2, 3});
  residual.branch = zeros({3, 3});
  EXPECT_THROW((void)expected_residual(residual), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
