// What a judged computation rounds to, and how far sums may be off for it.
//
// A sum of n products in the worst order, one after the other, rounds n times by at most u, the k-th
// time of the k-th partial sum. Where terms are alike in size that is at most a share k/n of
// S = sum|a b|, and roundings that are independent add up to a standard deviation of u sqrt(n)/3 S
// (N. Higham and T. Mary, A new approach to probabilistic rounding error analysis, 2019). Eight of
// those are exceeded by chance once in 10^15; and no sum is ever off by more than n u S.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "oracles/numbers.h"

namespace oracles {

struct Rounding {
  double stored;   // unit roundoff of every result that is kept
  double summed;   // unit roundoff inside sums, norms, exponentials and the loss
  double flushed;  // smallest normal number of what is kept: below it digits are lost
  double largest =
      std::numeric_limits<float>::max();  // number inside sums: beyond it they overflow

  // float64 and float32 throughout; bfloat16 and float16 keep results only, and sum in float32.
  static Rounding of(Number number) {
    const Number inside = number == Number::f64 ? Number::f64 : Number::f32;
    const double own = unit_roundoff(Number::f64);  // the oracle's
    return {unit_roundoff(number) + own,
            unit_roundoff(inside) + own,
            smallest_normal(number),
            inside == Number::f64 ? std::numeric_limits<double>::max()
                                  : std::numeric_limits<float>::max()};
  }
};

// In units of u S as above, with room for the rounding of a few more operations.
inline double sum_roundoff(std::int64_t terms) {
  const auto n = static_cast<double>(std::max<std::int64_t>(terms, 1));
  return std::min(n, 8.0 / 3 * std::sqrt(n)) + 2;
}

}  // namespace oracles
