// The mlp of a block by its recorded rows.
#include "oracles/model/mlp_stage.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/silu.h"
#include "tests/oracles/golden.h"
#include "tests/oracles/model/stage_laws_case.h"

namespace oracles::testing {
namespace {

constexpr std::int64_t kWidth = 24;
constexpr std::int64_t kHidden = 64;

// Owns what MlpInputs refers to.
struct Mlp {
  Tensor fc1, fc2, other_fc1, other_fc2, dy;
  MlpInputs in;

  Mlp(std::uint64_t seed, Number number) {
    Random random(seed);
    fc1 = drawn(random, {kHidden, kWidth}, 0.3, number);
    fc2 = drawn(random, {kWidth, kHidden}, 0.2, number);
    other_fc1 = drawn(random, {kHidden, kWidth}, 0.3, number);
    other_fc2 = drawn(random, {kWidth, kHidden}, 0.2, number);
    dy = drawn(random, {7, kWidth}, 1, number);
    in.x = drawn(random, {7, kWidth}, 1.5, number);
    in.weights = {"", matrix_of(fc1), matrix_of(fc2)};
    in.other_inputs = {{"before norm2", drawn(random, {7, kWidth}, 1, number)}};
    in.other_weights = {{"block 1", matrix_of(other_fc1), matrix_of(other_fc2)}};
    in.rounding = Rounding::of(number);
    in.threads = 1;
  }
  Mlp(const Mlp&) = delete;
};

// Summed in float32 and kept in `number`; the way back in the same arithmetic.
struct Narrow {
  Tensor y = zeros({7, kWidth});
  Tensor dx = zeros({7, kWidth});

  Narrow(const Mlp& mlp, Number number) {
    const auto keep = [&](double value) { return static_cast<float>(rounded(value, number)); };
    for (std::int64_t row = 0; row < 7; ++row) {
      std::vector<float> a(kHidden), du(kHidden);
      for (std::int64_t h = 0; h < kHidden; ++h) {
        float u = 0;
        float da = 0;
        for (std::int64_t i = 0; i < kWidth; ++i) {
          u += static_cast<float>(mlp.in.x.data[row * kWidth + i]) *
               static_cast<float>(mlp.fc1.data[h * kWidth + i]);
          da += static_cast<float>(mlp.dy.data[row * kWidth + i]) *
                static_cast<float>(mlp.fc2.data[i * kHidden + h]);
        }
        u = keep(u);
        const float s = 1 / (1 + std::exp(-u));
        a[h] = keep(u * s);
        du[h] = keep(keep(da) * (s * (1 + u * (1 - s))));
      }
      for (std::int64_t i = 0; i < kWidth; ++i) {
        float sum = 0;
        float back = 0;
        for (std::int64_t h = 0; h < kHidden; ++h) {
          sum += a[h] * static_cast<float>(mlp.fc2.data[i * kHidden + h]);
          back += du[h] * static_cast<float>(mlp.fc1.data[h * kWidth + i]);
        }
        y.data[row * kWidth + i] = keep(sum);
        dx.data[row * kWidth + i] = keep(back);
      }
    }
  }
};

TEST(MlpStage, GradientsAreTheSlopes) {
  Mlp mlp(1, Number::f64);
  const Tensor dx = expected_mlp_gradient(mlp.in, mlp.dy).value;
  Random random(2);
  const Tensor direction = random.tensor(mlp.in.x.shape, 1);
  const auto along = [&](double step) {
    MlpInputs moved = mlp.in;
    for (std::size_t i = 0; i < direction.data.size(); ++i) {
      moved.x.data[i] += step * direction.data[i];
    }
    const Tensor y = expected_mlp(moved).value;
    double sum = 0;
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      sum += y.data[i] * mlp.dy.data[i];
    }
    return sum;
  };
  double found = 0;
  for (std::size_t i = 0; i < direction.data.size(); ++i) {
    found += dx.data[i] * direction.data[i];
  }
  const double h = 1e-3;
  const double slope = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h);
  EXPECT_NEAR(found, slope, 1e-9 * std::abs(slope) + 1e-9);
}

TEST(MlpStage, BoundsHoldForEveryType) {
  for (const Number number : {Number::f32, Number::bf16, Number::f16}) {
    double worst = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Mlp mlp(seed, number);
      const Narrow narrow(mlp, number);
      const Misfit y = misfit_of(narrow.y.data, expected_mlp(mlp.in));
      const Misfit dx = misfit_of(narrow.dx.data, expected_mlp_gradient(mlp.in, mlp.dy));
      EXPECT_TRUE(y.fits() && dx.fits()) << seed << " " << y.worst << " " << dx.worst;
      worst = std::max({worst, y.worst, dx.worst});
    }
    EXPECT_GT(worst, number == Number::f32 ? 0.02 : 0.2);
  }
}

TEST(MlpStage, SiluOfRecordedRows) {
  Random random(3);
  const Tensor hidden = drawn(random, {5, 40}, 6, Number::f32);
  const Tensor da = drawn(random, {5, 40}, 1, Number::f32);
  Tensor a = hidden;
  Tensor du = hidden;
  for (std::size_t i = 0; i < hidden.data.size(); ++i) {
    const auto u = static_cast<float>(hidden.data[i]);
    const float s = 1 / (1 + std::exp(-u));
    a.data[i] = u * s;
    du.data[i] = static_cast<float>(da.data[i]) * (s * (1 + u * (1 - s)));
  }
  const Rounding rounding = Rounding::of(Number::f32);
  EXPECT_TRUE(misfit_of(a.data, expected_silu(hidden, rounding)).fits());
  EXPECT_TRUE(misfit_of(du.data, expected_silu_gradient(hidden, da, rounding)).fits());
  a.data[7] *= 1.00001;
  EXPECT_EQ(misfit_of(a.data, expected_silu(hidden, rounding)).first, 7);
}

class MlpLaws : public ::testing::TestWithParam<Number> {};

TEST_P(MlpLaws, EveryForwardLawIsNamedAlone) {
  const Mlp mlp(4, GetParam());
  EXPECT_GE(try_library(mlp_laws(), mlp.in, expected_mlp(mlp.in), GetParam()), 14);
}

TEST_P(MlpLaws, EveryBackwardLawIsNamedAlone) {
  const Mlp mlp(5, GetParam());
  const Expected right = expected_mlp_gradient(mlp.in, mlp.dy);
  EXPECT_GE(try_library(mlp_gradient_laws(), {mlp.in, mlp.dy}, right, GetParam()), 14);
}

INSTANTIATE_TEST_SUITE_P(Types, MlpLaws, ::testing::Values(Number::f32, Number::bf16));

TEST(MlpStage, RefusesWhatDoesNotFit) {
  Mlp mlp(6, Number::f32);
  EXPECT_THROW((void)mlp_laws().under("none", 0, mlp.in), std::invalid_argument);
  mlp.in.weights.fc2 = mlp.in.weights.fc1;
  EXPECT_THROW((void)expected_mlp(mlp.in), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
