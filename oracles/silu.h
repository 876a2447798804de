// silu(z) = z / (1 + exp(-z)) and its derivative; used by the gate and by the mlp compression.
#pragma once

#include <cmath>

#include "oracles/tensor.h"

namespace oracles {

inline double silu(double z) {
  return z / (1 + std::exp(-z));
}

// d silu / dz = s (1 + z (1 - s)) with s = 1 / (1 + exp(-z))
inline double silu_derivative(double z) {
  const double s = 1 / (1 + std::exp(-z));
  return s * (1 + z * (1 - s));
}

inline Tensor silu(Tensor z) {
  for (double& value : z.data) {
    value = silu(value);
  }
  return z;
}

// da -> dz = da * silu'(z), element by element.
inline Tensor through_silu(Tensor da, const Tensor& z) {
  for (std::size_t i = 0; i < da.data.size(); ++i) {
    da.data[i] *= silu_derivative(z.data[i]);
  }
  return da;
}

}  // namespace oracles
