// Every wrong update is named by its own law and by no other, whatever rounding adds.
#include "oracles/training/update_laws.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracles/training/update_case.h"

namespace oracles::testing {
namespace {

using ::testing::HasSubstr;

TrainConfig updating_config() {
  return {.lr = 0.02,
          .beta1 = 0.9,
          .beta2 = 0.99,
          .eps = 1e-8,
          .weight_decay = 0.3,
          .max_norm = 2.2,
          .warmup = 10,
          .total = 100};
}

struct Situation {
  const char* name;
  std::int64_t n;
  double length;  // of all gradients
};

// Within the warm-up and after it, with gradients that are clipped and with short ones.
constexpr Situation kSituations[] = {{"warming_up", 3, 5}, {"falling", 21, 5}, {"short", 30, 0.7}};

// Mistakes that make the same numbers of clipped gradients: no law is alone then, and both are told.
std::string twin_of(std::string_view law, const Situation& situation) {
  if (situation.length < updating_config().max_norm) {
    return "";
  }
  for (const auto& [a, b] : {std::pair("gradient_over_world", "clip_norm_times_world"),
                             std::pair("gradient_unscaled_twice", "clip_of_scaled_norm"),
                             std::pair("clip_missing", "clip_norm_over_world")}) {
    if (law == a || law == b) {
      return std::string("no law alone: ") + a + ", " + b;
    }
  }
  return "";
}

class UpdateLaws : public ::testing::TestWithParam<Situation> {};

TEST_P(UpdateLaws, RightUpdatesAreNamedByNone) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    UpdateCase step(seed, updating_config(), GetParam().n, GetParam().length);
    ASSERT_TRUE(step.follow("right", seed));
    const Naming naming = step.naming();
    EXPECT_EQ(naming.text(), "right");
    EXPECT_EQ(naming.right.judged, 3 * 3 * 700);
  }
}

TEST_P(UpdateLaws, EveryLawIsNamedAlone) {
  int named = 0;
  for (const Law& law : update_laws()) {
    UpdateCase step(7, updating_config(), GetParam().n, GetParam().length);
    if (!step.follow(law.name, 3)) {
      continue;
    }
    const Naming naming = step.naming();
    ++named;
    if (const std::string twins = twin_of(law.name, GetParam()); !twins.empty()) {
      EXPECT_EQ(naming.text(), twins) << law.name;
      continue;
    }
    ASSERT_NE(naming.alone(), nullptr) << law.name << " was told as " << naming.text();
    EXPECT_EQ(naming.alone()->law.name, law.name);
    EXPECT_EQ(naming.alone()->share, 1) << law.name;
  }
  EXPECT_GE(named, 30);
}

INSTANTIATE_TEST_SUITE_P(Situations,
                         UpdateLaws,
                         ::testing::ValuesIn(kSituations),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(UpdateLawList, EveryLawHasAMeaningInSomeSituation) {
  std::set<std::string_view> names;
  for (const Law& law : update_laws()) {
    EXPECT_TRUE(names.insert(law.name).second) << law.name;
    bool meant = false;
    for (const Situation& situation : kSituations) {
      UpdateCase step(7, updating_config(), situation.n, situation.length);
      meant = meant || step.follow(law.name, 3);
    }
    EXPECT_TRUE(meant) << law.name;
  }
}

// A law that holds for one parameter only.
TEST(UpdateNaming, WhereOneParameterDoesNotDecay) {
  UpdateCase wrong(5, updating_config(), 21, 5);
  ASSERT_TRUE(wrong.follow("decay_missing", 1));
  UpdateCase step(5, updating_config(), 21, 5);
  ASSERT_TRUE(step.follow("right", 1));
  step.parameters[1] = wrong.parameters[1];
  const Naming naming = step.naming();
  EXPECT_THAT(naming.text(), HasSubstr("decay_missing:"));
}

// A law that holds for some elements only.
TEST(UpdateNaming, WhereSomeElementsLoseTheirUpdate) {
  UpdateCase wrong(5, updating_config(), 21, 5);
  ASSERT_TRUE(wrong.follow("update_lost", 1));
  UpdateCase step(5, updating_config(), 21, 5);
  ASSERT_TRUE(step.follow("right", 1));
  for (std::size_t i = 100; i < 170; ++i) {
    step.parameters[1].p_after[i] = wrong.parameters[1].p_after[i];
  }
  const Naming naming = step.naming();
  EXPECT_EQ(naming.right.wrong, 70);
  ASSERT_NE(naming.alone(), nullptr) << naming.text();
  EXPECT_EQ(naming.alone()->law.name, "update_lost");
  EXPECT_NEAR(naming.alone()->share, 0.1, 0.01);
}

// One number of many would be cut off, and it is none of those that are spread: it decides all the same.
TEST(UpdateNaming, TheLargestNumberTellsClippingByValue) {
  UpdateCase step(3, updating_config(), 21, 5);
  step.context.world = 1;
  Parameter& large = step.parameters.front();
  for (auto* values : {&large.p, &large.m, &large.v, &large.gradient}) {
    values->front() = (*values)[1];
    values->resize(10'000, (*values)[2]);
  }
  large.gradient.back() = static_cast<float>(4 * step.context.loss_scale);
  step.parameters.resize(1);
  ASSERT_TRUE(step.follow("clip_missing", 1));
  ASSERT_NE(step.naming().alone(), nullptr) << step.naming().text();
  EXPECT_EQ(step.naming().alone()->law.name, "clip_missing");
}

TEST(UpdateNaming, StateWithFewerDigits) {
  for (const auto& [number, digits] :
       {std::pair(Number::bf16, "(bfloat16 digits)"), std::pair(Number::f16, "(float16 digits)")}) {
    const auto narrow = [type = number](std::vector<float>& values) {
      for (float& value : values) {
        value = static_cast<float>(rounded(value, type));
      }
    };
    UpdateCase step(5, updating_config(), 21, 5);
    step.parameters.pop_back();  // too small for float16
    ASSERT_TRUE(step.follow("right", 1));
    UpdateCase other = step;
    for (Parameter& parameter : step.parameters) {
      narrow(parameter.p_after);
    }
    EXPECT_THAT(step.naming().text(), HasSubstr("p_kept_narrow:"));
    EXPECT_THAT(step.naming().text(), HasSubstr(digits));
    for (Parameter& parameter : other.parameters) {
      narrow(parameter.m_after);
      narrow(parameter.v_after);
      const UpdatePrediction moved = predicted_update(parameter.record(), other.settings);
      parameter.p_after = as_floats(moved.p);
    }
    EXPECT_THAT(other.naming().text(), HasSubstr("moments_kept_narrow:"));
    EXPECT_THAT(other.naming().text(), HasSubstr(digits));
  }
}

TEST(UpdateNaming, WhatNoLawGives) {
  UpdateCase step(5, updating_config(), 21, 5);
  ASSERT_TRUE(step.follow("right", 1));
  for (float& p : step.parameters[1].p_after) {
    p *= 1.01F;
  }
  EXPECT_EQ(step.naming().text(), "no known law");
}

// In the first step the moments are one gradient: p moves by its sign, and a wrong factor of the
// gradient leaves no trace in p (unless eps is in the way). Without the moments nothing is to be seen; with
// them the law has a name.
TEST(UpdateNaming, AFactorInTheFirstStep) {
  TrainConfig train = updating_config();
  train.eps = 1e-20;
  UpdateCase step(5, train, 1, 5);
  ASSERT_TRUE(step.follow("clip_twice", 1));
  EXPECT_THAT(step.naming().text(), HasSubstr("clip_twice:"));
  step.forget_moments();
  EXPECT_EQ(step.naming().text(), "right");
}

// One rank of one: world and accumulate give the same factor, and no law is alone.
TEST(UpdateNaming, TwoLawsThatAgree) {
  UpdateCase step(5, updating_config(), 21, 5);
  step.context.accumulate = step.context.world;
  ASSERT_TRUE(step.follow("gradient_times_world", 1));
  EXPECT_EQ(step.naming().text(), "no law alone: gradient_times_world, gradient_times_accumulate");
}

TEST(UpdateNaming, RefusesAnUnknownName) {
  const UpdateCase step(5, updating_config(), 21, 5);
  EXPECT_THROW(
      (void)update_under("no_such_law", step.parameters[0].record(), step.settings, step.context),
      std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
