// The mlp with any activation. Internal to the oracle's model room.
#pragma once

#include "oracles/model/mlp_stage.h"

namespace oracles {

// A function and its derivative.
struct Activation {
  double (*value)(double z);
  double (*slope)(double z);
};
Activation silu_activation();

// value(z) with its bound; z may have one.
Expected activated(const Expected& z, const Activation& activation, const Rounding& rounding);

// fc2 value(fc1 x); the hidden numbers after the activation are multiplied by `kept` where given.
Expected mlp_with(const Tensor& x,
                  const MlpWeights& weights,
                  const Activation& activation,
                  const Rounding& rounding,
                  int threads,
                  const std::vector<double>& kept = {});

// (dy fc2 * slope(fc1 x)) fc1
Expected mlp_gradient_with(const Tensor& x,
                           const MlpWeights& weights,
                           const Activation& activation,
                           const Tensor& dy,
                           const Rounding& rounding,
                           int threads);

}  // namespace oracles
