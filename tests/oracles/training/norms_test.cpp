// The norm of all gradients, the clip coefficient, and the factor that moments show.
#include "oracles/training/norms.h"

#include <cmath>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracles/training/update_case.h"

namespace oracles::testing {
namespace {

using ::testing::ElementsAre;

struct Gradients {
  std::vector<std::vector<float>> tensors;
  std::vector<Numbers> views;

  explicit Gradients(double length, std::vector<std::int64_t> sizes = {70000, 300, 1200}) {
    Random random(6);
    double squares = 0;
    for (const std::int64_t size : sizes) {
      tensors.push_back(as_floats(random.tensor({size}, 1).data));
      for (const float g : tensors.back()) {
        squares += static_cast<double>(g) * g;
      }
    }
    for (std::vector<float>& tensor : tensors) {
      for (float& g : tensor) {
        g *= static_cast<float>(length / std::sqrt(squares));
      }
      views.push_back(Numbers::of(tensor));
    }
  }
  [[nodiscard]] NormFacts facts() const {
    return {.gradients = views,
            .loss_scale = 64,
            .max_norm = 1.3,
            .world = 3,
            .local_norm = 7.7,
            .threads = 2};
  }
};

TEST(GradientNorms, ByHand) {
  const std::vector<double> a{3, 0};
  const std::vector<double> b{-4, 12};
  const std::vector<Numbers> both{Numbers::of(a), Numbers::of(b)};
  const GradientNorms norms = gradient_norms(both, 1);
  EXPECT_EQ(norms.all, 13);
  EXPECT_THAT(norms.of, ElementsAre(3, std::sqrt(160.0)));
  EXPECT_EQ(norms.sum, 19);
  EXPECT_EQ(norms.largest, 12);
}

TEST(GradientNorms, ThreadsChangeNoBit) {
  const Gradients gradients(320);
  const double one = gradient_norms(gradients.views, 1).all;
  EXPECT_EQ(one, gradient_norms(gradients.views, 4).all);
  EXPECT_NEAR(one, 320, 1e-3);
}

// Float32 in 16 accumulators, and in one, which is worse than what the bound is made for; sizes from
// alike to very different, where small squares are lost beside a large sum.
TEST(NormRoundoff, HoldsForFloat32) {
  for (const double spread : {0.0, 1.0, 2.5}) {
    Random random(9);
    std::vector<float> gradient;
    for (int i = 0; i < 1000000; ++i) {
      gradient.push_back(static_cast<float>(random.normal() * std::exp(spread * random.normal())));
    }
    const Numbers view = Numbers::of(gradient);
    const double right = gradient_norms(std::span(&view, 1), 1).all;
    for (const std::size_t accumulators : {std::size_t{16}, std::size_t{1}}) {
      std::vector<float> sums(accumulators, 0.0F);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        sums[i % accumulators] += gradient[i] * gradient[i];
      }
      float all = 0;
      for (const float sum : sums) {
        all += sum;
      }
      EXPECT_NEAR(std::sqrt(all), right, norm_roundoff(1000000, Number::f32) * right)
          << spread << " " << accumulators;
    }
  }
}

TEST(NormNaming, RightNormsAreNamedByNone) {
  const Gradients gradients(320);
  EXPECT_EQ(name_norm(static_cast<float>(320.0 / 64), gradients.facts()).text(), "right");
  EXPECT_EQ(name_norm(NAN, gradients.facts()).text(), "no known law");
}

TEST(NormNaming, EveryLawIsNamedAlone) {
  const Gradients gradients(320);
  const GradientNorms g = gradient_norms(gradients.views, 1);
  const double right = g.all / 64;
  const double sum = std::accumulate(g.of.begin(), g.of.end(), 0.0) / 64;
  for (const auto& [law, norm] : {std::pair("norm_scaled", g.all),
                                  std::pair("norm_squared", right * right),
                                  std::pair("norm_summed", sum),
                                  std::pair("norm_of_magnitudes", g.sum / 64),
                                  std::pair("norm_largest", g.largest / 64),
                                  std::pair("norm_of_first", g.of.front() / 64),
                                  std::pair("norm_of_last", g.of.back() / 64),
                                  std::pair("norm_mean", right / std::sqrt(71500.0)),
                                  std::pair("norm_local", 7.7),
                                  std::pair("norm_times_world", 3 * right),
                                  std::pair("norm_reduced_twice", std::sqrt(3.0) * right),
                                  std::pair("norm_over_world", right / 3),
                                  std::pair("norm_after_clipping", 1.3)}) {
    const Naming naming = name_norm(static_cast<float>(norm), gradients.facts());
    ASSERT_NE(naming.alone(), nullptr) << law << " was told as " << naming.text();
    EXPECT_EQ(naming.alone()->law.name, law);
  }
  EXPECT_EQ(norm_laws().size(), 13u);
}

TEST(CoefficientNaming, OfLongAndOfShortGradients) {
  const auto text = [](double coefficient, double norm) {
    return name_coefficient(coefficient, norm, 0.6, Number::f32).text();
  };
  const auto law = [&](double coefficient, double norm) {
    const std::string all = text(coefficient, norm);
    return all.substr(0, all.find(':'));
  };
  EXPECT_EQ(text(static_cast<float>(0.6 / (3 + 1e-6)), 3), "right");
  EXPECT_EQ(text(1, 0.5), "right");
  EXPECT_EQ(law(1, 3), "coefficient_one");
  EXPECT_EQ(law(static_cast<float>(0.6 / (0.5 + 1e-6)), 0.5), "coefficient_not_limited");
  EXPECT_EQ(law(static_cast<float>(1 / (3 + 1e-6)), 3), "coefficient_of_one");
  EXPECT_EQ(law(std::pow(0.6 / (3 + 1e-6), 2), 3), "coefficient_squared");
  EXPECT_EQ(law(std::sqrt(0.6 / (3 + 1e-6)), 3), "coefficient_root");
  EXPECT_EQ(law(5, 3), "coefficient_inverse");
  EXPECT_EQ(law(0, 3), "coefficient_zero");
  EXPECT_EQ(text(0.4, 3), "no known law");
  EXPECT_EQ(coefficient_laws().size(), 7u);
}

TEST(FittedFactors, AreThoseThatWereUsed) {
  const TrainConfig train{
      .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .max_norm = 1, .warmup = 0, .total = 9};
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{7}}) {
    UpdateCase step(3, train, n, 5);
    ASSERT_TRUE(step.follow("right", 3));
    const FittedFactor fitted = fitted_factor(step.records(), step.settings, 2);
    // The case's own noise is 80 % of bounds that allow a factor off by 1e-6.
    EXPECT_NEAR(fitted.value / step.settings.factor, 1, fitted.error + 1e-6);
    EXPECT_LT(fitted.error, 1e-5);
    ASSERT_TRUE(step.follow("gradient_times_world", 3));
    const FittedFactor wrong = fitted_factor(step.records(), step.settings, 1);
    EXPECT_NEAR(wrong.value / step.settings.factor, 4, 4 * (wrong.error + 1e-6));
    step.forget_moments();
    EXPECT_THROW((void)fitted_factor(step.records(), step.settings, 1), std::invalid_argument);
  }
}

// What the error allows for is what m's roundings do: every order of float32, a thousand steps.
TEST(FittedFactors, StayWithinTheirError) {
  Random random(8);
  for (int step = 0; step < 200; ++step) {
    std::vector<float> m, g, after;
    const float factor = 0.37F;
    for (int i = 0; i < 5; ++i) {
      m.push_back(static_cast<float>(random.normal()));
      g.push_back(static_cast<float>(random.normal()));
      after.push_back(0.9F * m[i] + 0.1F * (factor * g[i]));
    }
    const UpdateRecord record{
        "a", Numbers::of(m), Numbers::of(m), {}, Numbers::of(g), {}, Numbers::of(after), {}};
    UpdateSettings settings;
    const FittedFactor fitted = fitted_factor(std::span(&record, 1), settings, 1);
    EXPECT_LE(std::abs(fitted.value / factor - 1), fitted.error);
  }
}

}  // namespace
}  // namespace oracles::testing
