#include "oracles/model/mlp_stage.h"

#include <algorithm>
#include <cmath>

#include "oracles/model/linear_rows.h"
#include "oracles/model/mlp_rules.h"
#include "oracles/silu.h"

namespace oracles {
namespace {

constexpr double kSteepest = 1.2;       // of any activation here; of silu 1.1
constexpr double kSteepestSlope = 1.0;  // of their derivatives; of silu's 0.5
constexpr double kActivationRounds = 6;

double bound_of(const Expected& e, std::size_t i) {
  return e.bound.data.empty() ? 0 : e.bound.data[i];
}

// da * slope(z)
Expected through(const Expected& da,
                 const Expected& z,
                 const Activation& activation,
                 const Rounding& rounding) {
  Expected e{zeros(z.value.shape), zeros(z.value.shape)};
  for (std::size_t i = 0; i < z.value.data.size(); ++i) {
    const double slope = activation.slope(z.value.data[i]);
    const double own = da.value.data[i];
    e.value.data[i] = own * slope;
    // s (1 + z (1 - s)), s the sigmoid: where z is large, 1 - s has lost digits.
    const double parts = std::abs(slope) + 0.5 + std::max(z.value.data[i], 0.0);
    e.bound.data[i] = std::abs(slope) * bound_of(da, i) +
                      kSteepestSlope * std::abs(own) * bound_of(z, i) +
                      kActivationRounds * rounding.summed * std::abs(own) * parts +
                      rounding.stored * std::abs(e.value.data[i]) + rounding.flushed;
  }
  return e;
}

}  // namespace

Activation silu_activation() {
  return {[](double z) { return silu(z); }, silu_derivative};
}

Expected activated(const Expected& z, const Activation& activation, const Rounding& rounding) {
  Expected e{z.value, zeros(z.value.shape)};
  for (std::size_t i = 0; i < e.value.data.size(); ++i) {
    e.value.data[i] = activation.value(z.value.data[i]);
    e.bound.data[i] =
        kSteepest * bound_of(z, i) +
        (kActivationRounds * rounding.summed + rounding.stored) * std::abs(e.value.data[i]) +
        rounding.flushed;
  }
  return e;
}

Expected mlp_with(const Tensor& x,
                  const MlpWeights& weights,
                  const Activation& activation,
                  const Rounding& rounding,
                  int threads,
                  const std::vector<double>& kept) {
  const Expected hidden = expected_linear({x, {}}, weights.fc1, false, rounding, threads);
  Expected a = activated(hidden, activation, rounding);
  for (std::size_t i = 0; i < a.value.data.size() && !kept.empty(); ++i) {
    a.value.data[i] *= kept[i % kept.size()];
    a.bound.data[i] *= kept[i % kept.size()];
  }
  return expected_linear(a, weights.fc2, false, rounding, threads);
}

Expected mlp_gradient_with(const Tensor& x,
                           const MlpWeights& weights,
                           const Activation& activation,
                           const Tensor& dy,
                           const Rounding& rounding,
                           int threads) {
  const Expected hidden = expected_linear({x, {}}, weights.fc1, false, rounding, threads);
  const Expected da = expected_linear({dy, {}}, weights.fc2, true, rounding, threads);
  return expected_linear(
      through(da, hidden, activation, rounding), weights.fc1, true, rounding, threads);
}

Expected expected_mlp(const MlpInputs& in) {
  return mlp_with(in.x, in.weights, silu_activation(), in.rounding, in.threads);
}

Expected expected_mlp_gradient(const MlpInputs& in, const Tensor& dy) {
  return mlp_gradient_with(in.x, in.weights, silu_activation(), dy, in.rounding, in.threads);
}

Expected expected_silu(const Tensor& hidden, const Rounding& rounding) {
  return activated({hidden, {}}, silu_activation(), rounding);
}

Expected expected_silu_gradient(const Tensor& hidden, const Tensor& da, const Rounding& rounding) {
  require_shape(da, hidden.shape, "da");
  return through({da, {}}, {hidden, {}}, silu_activation(), rounding);
}

}  // namespace oracles
