// The norms of a block by their recorded rows.
#include "oracles/model/norm_stage.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/model/rms_norm.h"
#include "tests/oracles/golden.h"
#include "tests/oracles/model/stage_laws_case.h"

namespace oracles::testing {
namespace {

using ::testing::HasSubstr;

// Rows of very different sizes, small ones among them: there the 1e-6 decides.
NormInputs inputs_of(std::uint64_t seed, Number number, std::int64_t width = 48) {
  Random random(seed);
  NormInputs in;
  in.rounding = Rounding::of(number);
  const auto drawn = [&](const Shape& shape) {
    Tensor t = random.tensor(shape, 1);
    for (double& value : t.data) {
      value = rounded(value, number);
    }
    return t;
  };
  in.x = drawn({9, width});
  for (std::int64_t i = 0; i < 3 * width; ++i) {
    in.x.data[i] = rounded(in.x.data[i] * 1e-3, number);
  }
  in.gain = drawn({width});
  in.other_inputs = {{"embed", drawn({9, width})}, {"mlp", drawn({9, width})}};
  in.other_gains = {{"norm_f", drawn({width})}};
  return in;
}

TEST(NormStage, IsTheNormOfTheModel) {
  const NormInputs in = inputs_of(1, Number::f64);
  Random random(2);
  const Tensor dy = random.tensor(in.x.shape, 1);
  EXPECT_LE(
      relative_error(expected_norm(in.x, in.gain, in.rounding).value, rms_norm(in.x, in.gain), 0),
      1e-15);
  Tensor dx = zeros(in.x.shape);
  Tensor dgain = zeros(in.gain.shape);
  add_rms_norm_gradients(dy, in.x, in.gain, dx, dgain);
  EXPECT_LE(relative_error(expected_norm_gradient(in.x, in.gain, dy, in.rounding).value, dx, 0),
            1e-14);
  const Expected gain =
      expected_gain_gradient(matrix_of(in.x), in.gain, matrix_of(dy), in.rounding, 1);
  EXPECT_LE(relative_error(gain.value, dgain, 0), 1e-14);
}

// Garbage in the stream, 1e20: its squares are infinite in float32, and a right norm makes zeros of the row. Rows beside it keep
// their bounds.
TEST(NormStage, ARowThatOverflowsSaysNothingOfTheNorm) {
  NormInputs in = inputs_of(3, Number::f32);
  const auto width = static_cast<std::size_t>(in.x.shape.back());
  in.x.data[0] = 1e20;
  Tensor found = expected_norm(in.x, in.gain, in.rounding).value;
  std::fill_n(found.data.begin(), width, 0.0);
  EXPECT_TRUE(misfit_of(found.data, expected_norm(in.x, in.gain, in.rounding)).fits());
  found.data[width] *= 1.01;
  EXPECT_FALSE(misfit_of(found.data, expected_norm(in.x, in.gain, in.rounding)).fits());
  Random random(4);
  const Tensor dy = random.tensor(in.x.shape, 1);
  Tensor back = expected_norm_gradient(in.x, in.gain, dy, in.rounding).value;
  std::fill_n(back.data.begin(), width, 0.0);
  EXPECT_TRUE(misfit_of(back.data, expected_norm_gradient(in.x, in.gain, dy, in.rounding)).fits());
  const Expected gain =
      expected_gain_gradient(matrix_of(in.x), in.gain, matrix_of(dy), in.rounding);
  EXPECT_TRUE(misfit_of(zeros(in.gain.shape).data, gain).fits());
  in.x.data[0] = 1e17;  // r^3 is zero in float32
  EXPECT_TRUE(misfit_of(back.data, expected_norm_gradient(in.x, in.gain, dy, in.rounding)).fits());
}

// The same in float32, one operation after the other, is within the bounds; and not far within.
TEST(NormStage, BoundsHoldForFloat32) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const NormInputs in = inputs_of(seed, Number::f32, 300);
    Random random(seed + 100);
    Tensor dy = random.tensor(in.x.shape, 1);
    Tensor y = zeros(in.x.shape);
    Tensor dx = zeros(in.x.shape);
    std::vector<float> dgain(300, 0.0F);
    for (std::size_t row = 0; row < 9; ++row) {
      float squares = 0;
      float along = 0;
      for (std::size_t i = row * 300; i < row * 300 + 300; ++i) {
        dy.data[i] = static_cast<float>(dy.data[i]);
        const auto x = static_cast<float>(in.x.data[i]);
        squares += x * x;
        along += static_cast<float>(in.gain.data[i % 300]) * static_cast<float>(dy.data[i]) * x;
      }
      const float r = 1.0F / std::sqrt(squares / 300.0F + 1e-6F);
      for (std::size_t i = row * 300; i < row * 300 + 300; ++i) {
        const auto x = static_cast<float>(in.x.data[i]);
        const auto gain = static_cast<float>(in.gain.data[i % 300]);
        const auto d = static_cast<float>(dy.data[i]);
        y.data[i] = x * r * gain;
        dx.data[i] = r * gain * d - r * r * r * x * (along / 300.0F);
        dgain[i % 300] += r * x * d;
      }
    }
    const Misfit forward = misfit_of(y.data, expected_norm(in.x, in.gain, in.rounding));
    const Misfit back = misfit_of(dx.data, expected_norm_gradient(in.x, in.gain, dy, in.rounding));
    const Misfit gain =
        misfit_of(Numbers::of(dgain),
                  expected_gain_gradient(matrix_of(in.x), in.gain, matrix_of(dy), in.rounding, 1));
    EXPECT_TRUE(forward.fits() && back.fits() && gain.fits()) << seed;
    worst = std::max({worst, forward.worst, back.worst, gain.worst});
  }
  EXPECT_GT(worst, 0.05);
}

class NormLaws : public ::testing::TestWithParam<Number> {};

TEST_P(NormLaws, EveryForwardLawIsNamedAlone) {
  const NormInputs in = inputs_of(3, GetParam());
  const Expected right = expected_norm(in.x, in.gain, in.rounding);
  EXPECT_GE(try_library(norm_stage_laws(), in, right, GetParam()), 15);
}

TEST_P(NormLaws, EveryBackwardLawIsNamedAlone) {
  const NormInputs in = inputs_of(4, GetParam());
  Random random(5);
  Tensor dy = random.tensor(in.x.shape, 1);
  const Expected right = expected_norm_gradient(in.x, in.gain, dy, in.rounding);
  EXPECT_GE(try_library(norm_gradient_laws(), {in, dy}, right, GetParam()), 8);
}

TEST_P(NormLaws, EveryLawOfTheGainIsNamedAlone) {
  const NormInputs norm = inputs_of(6, GetParam());
  Random random(7);
  const Tensor dy = random.tensor(norm.x.shape, 1);
  const GainInputs in{
      matrix_of(norm.x), norm.gain, matrix_of(dy), 3, Rounding::of(GetParam()), 0.25};
  const Expected right = expected_gain_gradient(in.x, in.gain, in.dy, in.rounding, in.scale);
  EXPECT_GE(try_library(gain_gradient_laws(), in, right, GetParam()), 7);
}

INSTANTIATE_TEST_SUITE_P(Types, NormLaws, ::testing::Values(Number::f32, Number::bf16));

// One row of nine is the norm of another tensor.
TEST(NormNaming, ALawThatHoldsInOneRow) {
  const NormInputs in = inputs_of(8, Number::f32);
  Tensor found = kept(expected_norm(in.x, in.gain, in.rounding), Number::f32, 1);
  const Tensor other = kept(*norm_stage_laws().under("rms_of_other_input", 1, in), Number::f32, 2);
  std::copy_n(other.data.begin() + 5 * 48, 48, found.data.begin() + 5 * 48);
  const Naming naming = norm_stage_laws().name(found, in);
  EXPECT_THAT(naming.text(), HasSubstr("rms_of_other_input: the norm of another tensor (mlp)"));
  EXPECT_NEAR(naming.alone()->share, 1.0 / 9, 0.01);
  EXPECT_GE(naming.right.first, 5 * 48);
}

TEST(NormStage, RefusesWhatDoesNotFit) {
  NormInputs in = inputs_of(9, Number::f32);
  EXPECT_THROW((void)expected_norm(in.x, zeros({47}), in.rounding), std::invalid_argument);
  EXPECT_THROW((void)expected_norm_gradient(in.x, in.gain, zeros({8, 48}), in.rounding),
               std::invalid_argument);
  EXPECT_THROW((void)norm_stage_laws().under("none", 0, in), std::invalid_argument);
  EXPECT_THROW((void)norm_stage_laws().name(zeros({8, 48}), in), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
