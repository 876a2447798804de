// AdamW number by number: every order of operations of a correct step stays within the bounds, a
// step that is off by little does not.
#include "oracles/training/judge_adamw.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracles/training/update_case.h"

namespace oracles::testing {
namespace {

using ::testing::HasSubstr;

// The state of one number, in the type T of the arithmetic.
template <typename T>
struct State {
  T p, m, v;
};
template <typename T>
using Step = State<T> (*)(State<T>, T gradient, const UpdateSettings&);

// As a textbook has it.
template <typename T>
State<T> textbook(State<T> s, T gradient, const UpdateSettings& c) {
  const T g = gradient * static_cast<T>(c.factor);
  const T b1 = static_cast<T>(c.beta1);
  const T b2 = static_cast<T>(c.beta2);
  s.m = b1 * s.m + static_cast<T>(1 - c.beta1) * g;
  s.v = b2 * s.v + static_cast<T>(1 - c.beta2) * (g * g);
  const T m_hat = s.m / static_cast<T>(1 - std::pow(c.beta1, c.n));
  const T v_hat = s.v / static_cast<T>(1 - std::pow(c.beta2, c.n));
  const T step = static_cast<T>(c.lr) * m_hat / (std::sqrt(v_hat) + static_cast<T>(c.eps));
  const T decay = static_cast<T>(c.lr * c.weight_decay) * s.p;
  s.p = (s.p - decay) - step;
  return s;
}

// Interpolations, the step size made first.
template <typename T>
State<T> interpolated(State<T> s, T gradient, const UpdateSettings& c) {
  const T g = gradient * static_cast<T>(c.factor);
  s.p *= static_cast<T>(1 - c.lr * c.weight_decay);
  s.m = s.m + static_cast<T>(1 - c.beta1) * (g - s.m);
  s.v = s.v * static_cast<T>(c.beta2) + static_cast<T>(1 - c.beta2) * g * g;
  const double first = 1 - std::pow(c.beta1, c.n);
  const double second = 1 - std::pow(c.beta2, c.n);
  const T denominator = std::sqrt(s.v) / static_cast<T>(std::sqrt(second)) + static_cast<T>(c.eps);
  s.p = s.p + static_cast<T>(-c.lr / first) * s.m / denominator;
  return s;
}

// Fused multiply-adds and one division for all.
template <typename T>
State<T> fused(State<T> s, T gradient, const UpdateSettings& c) {
  const T g = gradient * static_cast<T>(c.factor);
  s.m = std::fma(static_cast<T>(c.beta1), s.m, static_cast<T>(1 - c.beta1) * g);
  s.v = std::fma(static_cast<T>(1 - c.beta2), std::fma(g, g, -s.v), s.v);
  const double first = 1 - std::pow(c.beta1, c.n);
  const double second = 1 - std::pow(c.beta2, c.n);
  const T root = std::sqrt(s.v * static_cast<T>(1 / second)) + static_cast<T>(c.eps);
  const T step = s.m / (root * static_cast<T>(first));
  s.p = std::fma(
      -static_cast<T>(c.lr), step, std::fma(-static_cast<T>(c.lr * c.weight_decay), s.p, s.p));
  return s;
}

UpdateSettings random_settings(Random& random, Number number) {
  UpdateSettings c;
  c.number = number;
  c.beta1 = random.from(0, 3) == 0 ? 0.3 : 0.9;
  c.beta2 = random.from(0, 1) == 0 ? 0.95 : 0.999;
  c.eps = random.from(0, 1) == 0 ? 1e-8 : 1e-5;
  c.weight_decay = 0.1 * static_cast<double>(random.from(0, 2));
  c.lr = std::pow(10.0, static_cast<double>(random.from(-7, -1)));
  c.n = random.from(1, 3000);
  c.factor = std::pow(2.0, static_cast<double>(random.from(-16, 0))) * 0.7;
  return c;
}

// Sizes from where float32 loses digits to where squares are just finite.
double any_size(Random& random) {
  return std::pow(10.0, static_cast<double>(random.from(-26, 15))) * random.normal();
}

template <typename T>
struct StepRun {
  std::vector<T> p, m, v, gradient, p_after, m_after, v_after;

  StepRun(Random& random, const UpdateSettings& settings, Step<T> step) {
    for (int i = 0; i < 300; ++i) {
      const double size = any_size(random);
      const double g = size * random.normal();
      const double old = settings.n == 1 ? 0 : size * random.normal();
      const State<T> before{
          static_cast<T>(random.normal()), static_cast<T>(old), static_cast<T>(old * old * 0.1)};
      const T scaled = static_cast<T>(g / settings.factor);
      const State<T> after = step(before, scaled, settings);
      for (const auto& [to, value] : {std::pair(&p, before.p),
                                      std::pair(&m, before.m),
                                      std::pair(&v, before.v),
                                      std::pair(&gradient, scaled),
                                      std::pair(&p_after, after.p),
                                      std::pair(&m_after, after.m),
                                      std::pair(&v_after, after.v)}) {
        to->push_back(value);
      }
    }
  }

  // All elements once more, `times` times.
  void repeat(int times) {
    for (auto* const values : {&p, &m, &v, &gradient, &p_after, &m_after, &v_after}) {
      const std::vector<T> once = *values;
      for (int i = 0; i < times; ++i) {
        values->insert(values->end(), once.begin(), once.end());
      }
    }
  }

  [[nodiscard]] UpdateRecord record(bool with_moments) const {
    const Numbers none;
    return {"a",
            Numbers::of(p),
            Numbers::of(m),
            Numbers::of(v),
            Numbers::of(gradient),
            Numbers::of(p_after),
            with_moments ? Numbers::of(m_after) : none,
            with_moments ? Numbers::of(v_after) : none};
  }
};

// Every order of operations passes; that the worst comes near the bound says that the bound is no
// wider than it must be.
template <typename T>
void expect_sound(Number number) {
  double worst_m = 0;
  double worst_p = 0;
  for (const Step<T> step : {&textbook<T>, &interpolated<T>, &fused<T>}) {
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      Random random(seed);
      const UpdateSettings settings = random_settings(random, number);
      const StepRun<T> run(random, settings, step);
      for (const bool with_moments : {true, false}) {
        const UpdateJudgement judgement = judge_update(run.record(with_moments), settings, 1);
        ASSERT_TRUE(judgement.fits()) << "seed " << seed << " m " << judgement.m.worst << " v "
                                      << judgement.v.worst << " p " << judgement.p.worst;
        EXPECT_EQ(judgement.p.judged, 300);
        EXPECT_EQ(judgement.m.judged, with_moments ? 300 : 0);
        worst_m = std::max(worst_m, judgement.m.worst);
        worst_p = std::max(worst_p, judgement.p.worst);
      }
    }
  }
  EXPECT_GT(worst_m, 0.1);
  EXPECT_GT(worst_p, 0.1);
}

TEST(UpdateBounds, HoldForEveryOrderOfFloat32) {
  expect_sound<float>(Number::f32);
}
TEST(UpdateBounds, HoldForEveryOrderOfFloat64) {
  expect_sound<double>(Number::f64);
}

TEST(Updates, AgreeWithTheOptimiserInFloat64) {
  const TrainConfig train{.lr = 0.01, .weight_decay = 0.1, .max_norm = 1, .warmup = 2, .total = 9};
  Random random(4);
  Weights parameters{{"a", random.tensor({40}, 1)}};
  AdamState state;
  for (std::int64_t n = 1; n <= 4; ++n) {
    const Weights gradients{{"a", random.tensor({40}, 0.5)}};
    const Weights before = parameters;
    const AdamState old = state;
    (void)optimizer_step(train, n, gradients, parameters, state);
    UpdateSettings settings = settings_of(train, n);
    settings.number = Number::f64;
    settings.factor = clip_factor(global_norm(gradients), train.max_norm);
    const auto view = [](const Weights& weights) {
      return weights.empty() ? Numbers() : Numbers::of(weights.at("a").data);
    };
    const UpdateRecord record{"a",
                              view(before),
                              view(old.m),
                              view(old.v),
                              view(gradients),
                              view(parameters),
                              view(state.m),
                              view(state.v)};
    EXPECT_TRUE(judge_update(record, settings, 1).fits()) << n;
  }
}

// One element of 99,900, off by a little more than its bound, and the same element as a NaN.
TEST(Updates, AWrongElementIsFound) {
  Random random(2);
  const UpdateSettings settings = random_settings(random, Number::f32);
  StepRun<double> run(random, settings, &textbook<double>);
  run.repeat(332);
  const std::int64_t place = 77777;
  const UpdatePrediction right = predicted_update(run.record(true), settings);
  const auto judged = [&] { return judge_update(run.record(true), settings, 3); };
  for (const double value : {right.p[place] + 1.01 * right.p_bound[place],
                             right.p[place] - 1.01 * right.p_bound[place],
                             std::numeric_limits<double>::quiet_NaN()}) {
    run.p_after[place] = value;
    const UpdateJudgement judgement = judged();
    EXPECT_EQ(judgement.p.wrong, 1);
    EXPECT_EQ(judgement.p.first, place);
    EXPECT_THAT(judgement.wrong, ::testing::ElementsAre(place));
    EXPECT_GT(judgement.p.worst, 1);
    EXPECT_TRUE(judgement.m.fits());
  }
}

TEST(Updates, ASkippedStepChangesNothing) {
  Random random(6);
  const UpdateSettings settings = random_settings(random, Number::f32);
  StepRun<float> run(random, settings, &textbook<float>);
  EXPECT_FALSE(judge_skipped(run.record(true)).fits());
  run.p_after = run.p;
  run.m_after = run.m;
  run.v_after = run.v;
  run.gradient[4] = std::numeric_limits<float>::infinity();
  run.m[7] = run.m_after[7] = std::numeric_limits<float>::quiet_NaN();
  const UpdateJudgement judgement = judge_skipped(run.record(true));
  EXPECT_TRUE(judgement.fits());
  EXPECT_EQ(judgement.v.judged, 300);
  EXPECT_EQ(judge_skipped(run.record(false)).m.judged, 0);
  run.v_after[299] = std::nextafter(run.v_after[299], 1.0F);
  run.p_after[12] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(judge_skipped(run.record(true)).wrong, ::testing::ElementsAre(12, 299));
  UpdateRecord first = run.record(true);
  first.m_before = {};
  EXPECT_FALSE(judge_skipped(first).m.fits());
}

TEST(Updates, ThreadsChangeNothing) {
  Random random(3);
  const UpdateSettings settings = random_settings(random, Number::f32);
  StepRun<float> run(random, settings, &interpolated<float>);
  run.repeat(500);
  for (std::size_t i = 0; i < run.p.size(); i += 31) {
    run.m_after[i] *= 1.5F;
  }
  const UpdateJudgement one = judge_update(run.record(true), settings, 1);
  const UpdateJudgement four = judge_update(run.record(true), settings, 4);
  EXPECT_EQ(one.wrong, four.wrong);
  EXPECT_EQ(one.wrong.size(), UpdateJudgement::kMostWrong);
  EXPECT_EQ(one.m.wrong, four.m.wrong);
  EXPECT_EQ(one.p.worst, four.p.worst);
}

TEST(Updates, RefuseWhatDoesNotFit) {
  Random random(3);
  UpdateSettings settings = random_settings(random, Number::f32);
  const StepRun<float> run(random, settings, &textbook<float>);
  UpdateRecord record = run.record(true);
  record.m_after = record.m_after.part(0, 299);
  try {
    (void)judge_update(record, settings, 1);
    FAIL() << "not refused";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("a: m after the step has 299 numbers, wanted 300"));
  }
  settings.n = 0;
  EXPECT_THROW((void)judge_update(run.record(true), settings, 1), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
