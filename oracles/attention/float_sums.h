// What the sums of the softmax's backward come to where they are taken in float32, by a draw (Kept::draw): each is off by up to
// one unit roundoff of the magnitudes of its terms, equal sums by the same. Where keys are alike, or a query sees one of them, the
// softmax passes on differences of such sums and nothing else.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "oracles/attention/attend.h"
#include "oracles/counter_random.h"
#include "oracles/numbers.h"

namespace oracles {

inline double sum_in_float32(double sum, double magnitudes, std::uint64_t draw) {
  const double error = 2 * unit(oracles::draw(draw, std::bit_cast<std::uint64_t>(sum))) - 1;
  return sum + error * unit_roundoff(Number::f32) * magnitudes;
}

inline double magnitudes_of_products(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += std::abs(a[i] * b[i]);
  }
  return sum;
}

// The draw of the mean, which is no product do . v, where those have `draw`.
inline std::uint64_t mean_draw(std::uint64_t draw) {
  return mix(draw);
}

// The products do . v of the keys listed, as value_products() gives them.
void draw_value_products(const KeyBank& bank,
                         const KeyList& keys,
                         const View& do_hV,
                         std::uint64_t draw,
                         std::vector<double>& dp_hK);

}  // namespace oracles
