// The norm of all gradients and the clip coefficient (docs/data.md), and the laws that name wrong
// ones.
#pragma once

#include <span>
#include <vector>

#include "oracles/naming.h"
#include "oracles/numbers.h"
#include "oracles/training/judge_adamw.h"

namespace oracles {

struct GradientNorms {
  double all = 0;          // L2 norm of all gradients together
  std::vector<double> of;  // of each, in their order
  double sum = 0;          // of all magnitudes
  double largest = 0;      // magnitude
};

// In float64, in one fixed order whatever the number of threads. A NaN makes `all` a NaN.
GradientNorms gradient_norms(std::span<const Numbers> gradients, int threads = 0);

// How far, relatively, a norm that is summed in another arithmetic may be off. `largest` is the number
// of elements of the largest parameter: squares are summed parameter by parameter, in at least 16
// accumulators (two vectors of eight float32). An accumulator has largest/16 roundings, the k-th at
// most u of the k-th partial sum, a share k / (largest/16) of the whole; all in one direction they
// make u largest/32 of the sum, half of that of the norm. They do tend to one direction: small squares
// are lost beside a large sum. 8 u more for squares, roots and the sum over parameters.
double norm_roundoff(std::int64_t largest, Number number);

std::span<const Law> norm_laws();

// What a run recorded of clipping in one step, and what laws need to know.
struct NormFacts {
  std::span<const Numbers> gradients;  // as the optimiser gets them: reduced, scaled, not clipped
  double loss_scale = 1;
  double max_norm = 0;
  std::int64_t world = 1;
  double local_norm = 0;  // of this rank's own, unscaled gradients before the reduction; 0: unknown
  Number number = Number::f32;
  int threads = 0;
};

// The recorded norm, unscaled and before clipping, against the oracle's.
Naming name_norm(double recorded, const NormFacts& facts);

std::span<const Law> coefficient_laws();

// min(1, max_norm / (norm + 1e-6)) of the *recorded* norm, within 8 u: a wrong norm is not told a
// second time here. Laws: see coefficient_laws().
Naming name_coefficient(double recorded, double recorded_norm, double max_norm, Number number);

// The factor of the gradient that the moments show: the f for which m = beta1 m + (1 - beta1) f
// gradient, by least squares over all elements of all records.
struct FittedFactor {
  double value = 0;
  double error = 0;  // relative: the roundings of m, all in one direction, move the fit by no more
};

// The records must hold m after the step. settings.factor is not looked at. Throws
// std::invalid_argument where moments are missing or all gradients are 0.
FittedFactor fitted_factor(std::span<const UpdateRecord> records,
                           const UpdateSettings& settings,
                           int threads = 0);

}  // namespace oracles
