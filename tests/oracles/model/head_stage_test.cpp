// Logits and loss by their recorded rows.
#include "oracles/model/head_stage.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/model/cross_entropy.h"
#include "tests/oracles/golden.h"
#include "tests/oracles/model/stage_laws_case.h"

namespace oracles::testing {
namespace {

using ::testing::HasSubstr;

struct Head {
  Tensor head, table;
  HeadInputs in;

  explicit Head(Number number) {
    Random random(1);
    head = drawn(random, {17, 40}, 0.8, number);
    table = drawn(random, {17, 40}, 0.8, number);
    in.x = drawn(random, {8, 40}, 2, number);
    in.others = {{"before norm_f", drawn(random, {8, 40}, 1, number)}};
    in.head = matrix_of(head);
    in.table = matrix_of(table);
    in.rounding = Rounding::of(number);
    in.threads = 1;
  }
  Head(const Head&) = delete;
};

class HeadLaws : public ::testing::TestWithParam<Number> {};

TEST_P(HeadLaws, EveryLawIsNamedAlone) {
  const Head head(GetParam());
  const auto naming = [&](const Tensor& found) { return name_logits(found, head.in); };
  const Expected right = expected_logits(head.in);
  EXPECT_EQ(naming(kept(right, GetParam(), 1)).text(), "right");
  LawTrial trial{head_laws(),
                 [&](std::string_view law, std::size_t choice) -> std::optional<Expected> {
                   return law == "head_bias" ? std::nullopt : head_under(law, choice, head.in);
                 },
                 naming,
                 GetParam()};
  EXPECT_EQ(try_every_law(trial), 9);
  try_last_laws(right, naming, GetParam());
  Tensor biased = kept(right, GetParam(), 3);
  for (std::size_t i = 0; i < biased.data.size(); ++i) {
    biased.data[i] = rounded(biased.data[i] + std::sin(static_cast<double>(i % 17)), GetParam());
  }
  EXPECT_THAT(naming(biased).text(), HasSubstr("head_bias: "));
  biased.data[20] += 1;
  EXPECT_EQ(naming(biased).text(), "no known law");
}

INSTANTIATE_TEST_SUITE_P(Types, HeadLaws, ::testing::Values(Number::f32, Number::bf16));

struct Loss {
  Tensor logits;
  LossInputs in;

  explicit Loss(Number number, bool with_rows = true, std::int64_t batch = 3) {
    Random random(4);
    logits = drawn(random, {batch * 9, 13}, 2, number);
    in.logits = matrix_of(logits);
    in.tokens = filled<std::int64_t>({batch, 9}, 0);
    for (std::int64_t& token : in.tokens.data) {
      token = random.from(0, 12);
    }
    if (with_rows) {
      in.rows = {0, 7, 8, batch * 9 - 2};
    }
    in.gradient_scale = 64;
    in.width = 24;
    in.rounding = Rounding::of(number);
  }
  Loss(const Loss&) = delete;

  [[nodiscard]] Naming naming(const Tensor& found) const {
    const Tensor rows{{static_cast<std::int64_t>(in.rows.size()), 13},
                      {found.data.begin() + 1, found.data.end()}};
    return name_loss(found.data[0], rows, in);
  }
};

TEST(LossStage, IsTheLossOfTheModel) {
  const Loss loss(Number::f64);
  Tensor logits = loss.logits;
  logits.shape = {3, 9, 13};
  const CrossEntropy wanted = cross_entropy(logits, loss.in.tokens);
  const Expected found = expected_loss(loss.in);
  EXPECT_NEAR(found.value.data[0], wanted.loss, 1e-14);
  for (std::size_t i = 0; i < loss.in.rows.size(); ++i) {
    for (std::int64_t v = 0; v < 13; ++v) {
      EXPECT_NEAR(found.value.data[1 + i * 13 + v],
                  64 * wanted.dlogits_BSV.data[loss.in.rows[i] * 13 + v],
                  1e-14);
    }
  }
}

// In float32, one operation after the other, for logits from small to very large.
TEST(LossStage, BoundsHoldForFloat32) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Tensor logits = drawn(
        random, {40, 256}, std::pow(10.0, static_cast<double>(random.from(-1, 2))), Number::f32);
    LossInputs in;
    in.logits = matrix_of(logits);
    in.tokens = filled<std::int64_t>({2, 20}, 0);
    for (std::int64_t& token : in.tokens.data) {
      token = random.from(0, 255);
    }
    in.rows = {0, 25};
    std::vector<float> found{0};
    for (std::int64_t row = 0; row < 40; ++row) {
      if (row % 20 == 19) {
        continue;
      }
      const double* const z = logits.data.data() + row * 256;
      const auto largest = static_cast<float>(*std::max_element(z, z + 256));
      const std::int64_t target = in.tokens.data[row + 1];
      float sum = 0;
      for (int v = 0; v < 256; ++v) {
        sum += std::exp(static_cast<float>(z[v]) - largest);
      }
      found[0] += (std::log(sum) + largest - static_cast<float>(z[target])) / 38.0F;
      if (row == 0 || row == 25) {
        for (int v = 0; v < 256; ++v) {
          const float p = std::exp(static_cast<float>(z[v]) - largest) / sum;
          found.push_back((p - (v == target ? 1.0F : 0.0F)) / 38.0F);
        }
      }
    }
    const Misfit misfit = misfit_of(Numbers::of(found), expected_loss(in));
    EXPECT_TRUE(misfit.fits()) << seed << " " << misfit.worst << " at " << misfit.first;
    worst = std::max(worst, misfit.worst);
  }
  EXPECT_GT(worst, 0.02);
}

class LossLaws : public ::testing::TestWithParam<bool> {};

// With rows of the gradient, and with the loss alone.
TEST_P(LossLaws, EveryLawIsNamedAlone) {
  const Loss loss(Number::f32, GetParam());
  const auto naming = [&](const Tensor& found) { return loss.naming(found); };
  const Expected right = expected_loss(loss.in);
  EXPECT_EQ(naming(kept(right, Number::f32, 1)).text(), "right");
  const auto under = [&](std::string_view law, std::size_t choice) {
    return loss_under(law, choice, loss.in);
  };
  LawTrial trial{loss_laws(), under, naming, Number::f32};
  if (!GetParam()) {
    trial.vanishing = {"loss_softmax_in_float16"};  // in the mean of 24 rows
  }
  EXPECT_EQ(try_every_law(trial), GetParam() ? 28 : 26);
}

INSTANTIATE_TEST_SUITE_P(Rows, LossLaws, ::testing::Bool());

// Where a mask leaves positions out: laws of it, and that of the model.
TEST(LossStage, OfScoredPositionsAlone) {
  Loss loss(Number::f32);
  for (const char* law : {"loss_mask_ignored", "loss_mask_one_more", "loss_over_unscored"}) {
    EXPECT_FALSE(loss_under(law, 0, loss.in).has_value()) << law;
  }
  loss.in.scored = {3, 5, 8};
  Tensor logits = loss.logits;
  logits.shape = {3, 9, 13};
  const CrossEntropy wanted = cross_entropy(logits, loss.in.tokens, loss.in.scored);
  const Expected right = expected_loss(loss.in);
  EXPECT_NEAR(right.value.data[0], wanted.loss, 1e-14);
  for (std::int64_t v = 0; v < 13; ++v) {
    EXPECT_EQ(right.value.data[1 + 13 + v], 0) << "position 7 of the first sequence is not scored";
  }
  const auto naming = [&](const Tensor& found) { return loss.naming(found); };
  EXPECT_EQ(naming(kept(right, Number::f32, 1)).text(), "right");
  const auto under = [&](std::string_view law, std::size_t choice) {
    return loss_under(law, choice, loss.in);
  };
  EXPECT_EQ(try_every_law({loss_laws(), under, naming, Number::f32}), 32);
  loss.in.scored = {3, 5};
  EXPECT_THROW((void)expected_loss(loss.in), std::invalid_argument);
  loss.in.scored = {3, 5, 9};
  EXPECT_THROW((void)expected_loss(loss.in), std::invalid_argument);
}

// Packed documents: their last tokens predict nothing, and laws of that.
TEST(LossStage, OfPackedDocuments) {
  Loss loss(Number::f32);
  for (const char* law :
       {"loss_across_documents", "loss_without_first_tokens", "loss_over_document_ends"}) {
    EXPECT_FALSE(loss_under(law, 0, loss.in).has_value()) << law;
  }
  loss.in.documents = {{2, 6, 1}, {5, 4}, {3, 2, 4}};
  Tensor logits = loss.logits;
  logits.shape = {3, 9, 13};
  const CrossEntropy wanted = cross_entropy(logits, loss.in.tokens, {}, loss.in.documents);
  const Expected right = expected_loss(loss.in);
  EXPECT_NEAR(right.value.data[0], wanted.loss, 1e-14);
  for (std::int64_t v = 0; v < 13; ++v) {
    EXPECT_EQ(right.value.data[1 + 13 + v], 0) << "position 7 ends the second document";
  }
  const auto naming = [&](const Tensor& found) { return loss.naming(found); };
  EXPECT_EQ(naming(kept(right, Number::f32, 1)).text(), "right");
  const auto under = [&](std::string_view law, std::size_t choice) {
    return loss_under(law, choice, loss.in);
  };
  EXPECT_EQ(try_every_law({loss_laws(), under, naming, Number::f32}), 31);
  loss.in.documents.pop_back();
  EXPECT_THROW((void)expected_loss(loss.in), std::invalid_argument);
}

TEST(LossNaming, AFactorAndFewerDigits) {
  const Loss loss(Number::f32);
  try_last_laws(
      expected_loss(loss.in), [&](const Tensor& found) { return loss.naming(found); }, Number::f32);
}

// With one sequence there is no other to leave out, and none to divide by.
TEST(LossNaming, OfOneSequence) {
  const Loss loss(Number::f32, true, 1);
  for (const char* law :
       {"loss_last_sequence_missing", "loss_over_sequences", "loss_over_length"}) {
    EXPECT_FALSE(loss_under(law, 0, loss.in).has_value()) << law;
  }
  EXPECT_THAT(loss.naming(kept(*loss_under("loss_two_ahead", 0, loss.in), Number::f32, 1)).text(),
              HasSubstr("loss_two_ahead: "));
}

TEST(LossStage, RefusesWhatDoesNotFit) {
  Loss loss(Number::f32);
  EXPECT_THROW((void)loss_under("none", 0, loss.in), std::invalid_argument);
  loss.in.tokens.data[2] = 13;
  EXPECT_THROW((void)expected_loss(loss.in), std::invalid_argument);
  loss.in.tokens.data[2] = 0;
  loss.in.rows[0] = 27;
  EXPECT_THROW((void)expected_loss(loss.in), std::invalid_argument);
  loss.in.rows[0] = 0;
  loss.in.logits.rows = 26;
  EXPECT_THROW((void)expected_loss(loss.in), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
