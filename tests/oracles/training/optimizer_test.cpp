// Learning rate, clipping and AdamW: the golden training run, hand-computed cells, and laws.
#include "oracles/training/optimizer.h"

#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/oracles/lm_golden.h"

namespace oracles::testing {
namespace {

// As in lm_test.cpp; four steps of it. Adam divides by the root of a mean square, so a relative
// error of a gradient stays one of its step.
constexpr double kLimit = 1e-11;

IntTensor batch_of(const IntTensor& tokens, std::int64_t step) {
  const std::int64_t size = tokens.shape[1] * tokens.shape[2];
  const auto begin = tokens.data.begin() + step * size;
  return {{tokens.shape[1], tokens.shape[2]}, {begin, begin + size}};
}

class TrainGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(TrainGolden, EveryStepAndTheLastParameters) {
  const GoldenFile file("train_" + GetParam());
  const LmConfig lm = lm_config_of(file.metadata("config"));
  const TrainConfig train = train_config_of(file.metadata("config"));
  const IntTensor tokens = file.integers("tokens");
  Weights parameters = file.tensors("p0.");
  AdamState state;
  for (std::int64_t k = 0; k < tokens.shape[0]; ++k) {
    LmPass pass = language_model_with_gradients(lm, parameters, batch_of(tokens, k));
    const OptimizerStep done =
        optimizer_step(train, k + 1, std::move(pass.gradients), parameters, state);
    for (const auto& [name, found] : {std::pair("loss", pass.result.loss),
                                      std::pair("grad_norm", done.grad_norm),
                                      std::pair("lr", done.rate)}) {
      const double wanted = file.tensor(name).data.at(k);
      EXPECT_NEAR(found, wanted, kLimit * wanted) << name << " at step " << k;
    }
  }
  const Weights wanted = file.tensors("p1.");
  ASSERT_EQ(parameters.size(), wanted.size());
  double worst = 0;
  for (const auto& [name, tensor] : wanted) {
    worst = std::max(worst, relative_error(parameters.at(name), tensor, 0));
    EXPECT_LE(relative_error(parameters.at(name), tensor, 0), kLimit) << name;
  }
  std::ostringstream text;
  text << worst;
  RecordProperty("parameters", text.str());
}

INSTANTIATE_TEST_SUITE_P(EveryFile,
                         TrainGolden,
                         ::testing::ValuesIn(golden_names("train")),
                         [](const auto& param) { return param.param; });

TEST(TrainGoldenFolder, HoldsAFile) {
  EXPECT_GE(golden_names("train").size(), 1u);
}

TrainConfig typical() {
  return {.lr = 0.5,
          .beta1 = 0.5,
          .beta2 = 0.75,
          .eps = 1,
          .weight_decay = 0.1,
          .max_norm = 2,
          .warmup = 4,
          .total = 8};
}

TEST(LearningRate, RisesThenFollowsTheCosineToZero) {
  const TrainConfig c = typical();
  const std::vector<double> wanted{
      0.125, 0.25, 0.375, 0.5, 0.5, 0.25 * (1 + std::sqrt(0.5)), 0.25, 0.25 * (1 - std::sqrt(0.5))};
  for (std::int64_t step = 1; step <= 8; ++step) {
    EXPECT_NEAR(learning_rate(c, step), wanted[step - 1], 1e-15) << step;
  }
  EXPECT_THROW((void)learning_rate(c, 0), std::invalid_argument);
  EXPECT_EQ(learning_rate(c, 9), 0);
  EXPECT_EQ(learning_rate(c, 1000), 0);
}

TEST(LearningRate, WithoutWarmUpAndWithNothingElse) {
  TrainConfig c = typical();
  c.warmup = 0;
  EXPECT_EQ(learning_rate(c, 1), 0.5);
  c.warmup = 8;
  EXPECT_EQ(learning_rate(c, 8), 0.5);
}

TEST(Clip, ScalesWhatIsTooLongOnly) {
  const Weights gradients{{"a", {{2}, {3, 0}}}, {"b", {{1}, {-4}}}};
  EXPECT_EQ(global_norm(gradients), 5);
  EXPECT_EQ(clip_factor(5, 10), 1);
  EXPECT_NEAR(clip_factor(5, 1), 1 / (5 + 1e-6), 1e-16);
  EXPECT_EQ(clip_factor(0, 1), 1);
}

// Step 1 at g = 2: m = 1, v = 1, both over their corrections 1/2 and 1/4: 2 and 4, so the step is
// 0.5 * 2 / (2 + 1) after the decay by 1 - 0.05.
TEST(AdamW, TwoStepsByHand) {
  const TrainConfig c = typical();
  Weights p{{"a", {{1}, {10}}}};
  AdamState state;
  adamw_step(c, 1, 0.5, {{"a", {{1}, {2}}}}, p, state);
  EXPECT_NEAR(p["a"].data[0], 9.5 - 1.0 / 3, 1e-14);
  // m = 0.5 + 2 = 2.5 over 3/4, v = 0.75 + 0.25 * 16 = 4.75 over 7/16.
  adamw_step(c, 2, 0.25, {{"a", {{1}, {4}}}}, p, state);
  const double direction = (2.5 / 0.75) / (std::sqrt(4.75 / 0.4375) + 1);
  EXPECT_NEAR(p["a"].data[0], (9.5 - 1.0 / 3) * 0.975 - 0.25 * direction, 1e-14);
}

TEST(OptimizerStep, ClipsBeforeTheMoments) {
  const TrainConfig c = typical();
  Weights p{{"a", {{1}, {0}}}};
  AdamState state;
  const OptimizerStep done = optimizer_step(c, 1, {{"a", {{1}, {20}}}}, p, state);
  EXPECT_EQ(done.grad_norm, 20);
  EXPECT_EQ(done.rate, 0.125);
  EXPECT_NEAR(state.m["a"].data[0], 1, 1e-6);
  EXPECT_NEAR(state.v["a"].data[0], 1, 1e-6);
}

TEST(AdamW, RefusesWhatDoesNotFit) {
  const TrainConfig c = typical();
  Weights p{{"a", {{1}, {0}}}};
  AdamState state;
  EXPECT_THROW(adamw_step(c, 1, 0.1, {}, p, state), std::invalid_argument);
  EXPECT_THROW(adamw_step(c, 1, 0.1, {{"a", zeros({2})}}, p, state), std::invalid_argument);
  EXPECT_THROW(adamw_step(c, 2, 0.1, {{"a", zeros({1})}}, p, state), std::invalid_argument);
}

TEST(TrainConfigs, RefusesImpossibleNumbers) {
  const auto refused = [](auto spoil) {
    TrainConfig c = typical();
    spoil(c);
    EXPECT_THROW(validate(c), std::invalid_argument);
  };
  validate(typical());
  refused([](auto& c) { c.lr = -1; });
  refused([](auto& c) { c.eps = NAN; });
  refused([](auto& c) { c.weight_decay = -0.1; });
  refused([](auto& c) { c.beta1 = 1; });
  refused([](auto& c) { c.beta2 = NAN; });
  refused([](auto& c) { c.max_norm = 0; });
  refused([](auto& c) { c.warmup = 9; });
  refused([](auto& c) { c.total = c.warmup = 0; });
}

}  // namespace
}  // namespace oracles::testing
