// The norm of a block, y = x / sqrt(mean(x^2) + 1e-6) * gain over each row, judged from its recorded
// input: any rows, since rows do not meet. Forward, the input's gradient, the gain's gradient.
// Legend: R rows (some or all of B*S), E width.
//
// With rho = sum_roundoff(E) / 2 + 6 roundings (half of those of a sum of squares, the root's, and two
// products), a norm that is computed in Rounding::summed and stored once is off by at most
//   |dy| <= (stored + rho summed)|y| + f.
// Its input's gradient, r gain dy - r^3 x (sum gain dy x) / E with r = 1 / sqrt(mean(x^2) + 1e-6), by
//   (stored |dx|) + (rho + 2) summed (|r gain dy| + 3 |second term|) +
//   sum_roundoff(E) summed r^3 |x| (sum |gain dy x|) / E + f,
// its gain's gradient, the sum of r x dy over all rows, by
//   stored |dgain| + (sum_roundoff(rows) + rho) summed sum|r x dy| + f.
// A row whose squares overflow the type of the sums has no bound: what comes of it says nothing of the norm. Nor has the
// gradient of one whose r^3 underflows there.
#pragma once

#include <string>
#include <vector>

#include "oracles/expected.h"
#include "oracles/model/stage_naming.h"
#include "oracles/rounding.h"

namespace oracles {

// All three throw std::invalid_argument where shapes do not fit.
Expected expected_norm(const Tensor& x_RE, const Tensor& gain_E, const Rounding& rounding);
// dy [R,E]: the gradient of what leaves the norm. The result is what the norm adds to that of x.
Expected expected_norm_gradient(const Tensor& x_RE,
                                const Tensor& gain_E,
                                const Tensor& dy_RE,
                                const Rounding& rounding);
// [E], of all rows; `scale` multiplies the sum (1 / micro-batches, the loss scale).
Expected expected_gain_gradient(const Matrix& x,
                                const Tensor& gain_E,
                                const Matrix& dy,
                                const Rounding& rounding,
                                double scale = 1);

// Rows of another tensor, by its name, that may have been taken by mistake.
struct NamedRows {
  std::string name;
  Tensor rows;
};

struct NormInputs {
  Tensor x;                                  // [R,E]
  Tensor gain;                               // [E]
  std::vector<NamedRows> other_inputs = {};  // [R,E]: what enters the block, the embedding, ...
  std::vector<NamedRows> other_gains = {};   // [E]: of other norms
  Rounding rounding = Rounding::of(Number::f32);
};

// found [R,E], what left the norm.
const StageLibrary<NormInputs>& norm_stage_laws();

// found [R,E], what the norm's backward made of dy [R,E].
struct NormGradientInputs {
  const NormInputs& forward;
  const Tensor& dy;
};
const StageLibrary<NormGradientInputs>& norm_gradient_laws();

struct GainInputs {
  Matrix x;  // all rows, sequence after sequence
  Tensor gain;
  Matrix dy;
  std::int64_t batch = 1;  // sequences
  Rounding rounding = Rounding::of(Number::f32);
  double scale = 1;  // of the sum
};

// found [E].
const StageLibrary<GainInputs>& gain_gradient_laws();

}  // namespace oracles
