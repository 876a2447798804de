// The largest of many values, where a NaN is larger than anything and stays: it fails every comparison with a limit.
#pragma once

#include <cmath>
#include <vector>

#ifdef __FAST_MATH__
#error "A NaN must fail every comparison"
#endif

namespace harness::checks {

inline void raise_to(double& most, double value) {
  if (std::isnan(most)) return;
  if (!(value <= most)) most = value;
}

// The largest magnitude.
[[nodiscard]] inline double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) raise_to(most, std::abs(value));
  return most;
}

}  // namespace harness::checks
