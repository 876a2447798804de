// One AdamW update (docs/data.md, "Optimiser, schedule, loss scale"), judged number by number from
// the state recorded before it:
//   g = factor * gradient;   m = beta1 m + (1 - beta1) g;   v = beta2 v + (1 - beta2) g^2;
//   p = p (1 - lr weight_decay) - lr (m / (1 - beta1^n)) / (sqrt(v / (1 - beta2^n)) + eps).
// Where m and v after the step are on record, p is judged from them: then its bound holds nothing
// but the roundings of its own line, and a wrong moment is not told a second time as a wrong p.
//
// The bounds. u is the unit roundoff of the type that state and arithmetic have, plus 2^-53 for the
// oracle's own. Every operation of a correct step may round once, in any order of the operations, as
// a weighted sum or as an interpolation (m + (1 - beta1)(g - m)), with or without fused
// multiply-add; betas, lr, eps and the bias corrections are made in float64 and rounded once each;
// results below the smallest normal number f may be flushed to zero. First order, with room:
//   |dg| <= (gradient_error + 3u)|g| + f
//   |dm| <= (1 - beta1)|dg| + 6u (|beta1 m| + (1 - beta1)(|g| + |m|)) + f
//   |dv| <= (1 - beta2)(2|g||dg| + dg^2) + 6u (beta2 v + (1 - beta2)(g^2 + v)) + f
//   S = sqrt(v), |dS| <= S - sqrt(v - |dv|) + 2u S + sqrt(f); D = S / sqrt(1 - beta2^n) + eps,
//   |dD| <= |dS| / sqrt(1 - beta2^n) + 5u D
//   |dp| <= 3u|p| + 2u|p'| + lr (|dm| / c1 / D' + |m| / c1 |dD| / (D D')) + 8u lr |m| / c1 / D + f
// where p' is the result, c1 = 1 - beta1^n and D' = D - |dD|; |dm| and |dv| are 0 where the moments
// after the step are on record.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "oracles/naming.h"
#include "oracles/numbers.h"
#include "oracles/training/optimizer.h"

namespace oracles {

// One parameter at one step; all tensors flat, of the same number of elements.
struct UpdateRecord {
  std::string name;
  Numbers p_before;  // the master where the model's weight is a rounded copy
  Numbers m_before;  // empty: zeros, before the first update
  Numbers v_before;
  Numbers gradient;  // after the reduction; neither unscaled nor clipped
  Numbers p_after;
  Numbers m_after;  // empty: not on record
  Numbers v_after;
};

struct UpdateSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double lr = 0;                // learning rate of this step
  std::int64_t n = 1;           // updates of this parameter, this one included
  double factor = 1;            // of the gradient: clip coefficient over loss scale
  double factor_error = 0;      // how far, relatively, the factor that was used may be from it
  Number number = Number::f32;  // type of p, m, v and of the arithmetic
};

// Learning rate and hyperparameters of step n; the factor stays 1.
UpdateSettings settings_of(const TrainConfig& config, std::int64_t n);

struct UpdateJudgement {
  Misfit m;  // judged 0 where the moments after the step are not on record
  Misfit v;
  Misfit p;
  // Elements of which p, m or v is wrong: the first ones, ascending, at most kMostWrong.
  std::vector<std::int64_t> wrong;

  static constexpr std::size_t kMostWrong = 4096;
  [[nodiscard]] bool fits() const { return m.fits() && v.fits() && p.fits(); }
};

// All elements. Throws std::invalid_argument that names the parameter where sizes do not fit, or
// where n is below 1. The same judgement whatever the number of threads (0: all the hardware has).
UpdateJudgement judge_update(const UpdateRecord& record,
                             const UpdateSettings& settings,
                             int threads = 0);

// A step whose norm is not finite changes nothing: p, m and v stay, bit by bit (a NaN stays a NaN).
UpdateJudgement judge_skipped(const UpdateRecord& record);

// What the right step gives, and how far a correct one may be off.
struct UpdatePrediction {
  std::vector<double> m;
  std::vector<double> v;
  std::vector<double> p;
  std::vector<double> m_bound;
  std::vector<double> v_bound;
  std::vector<double> p_bound;
};
UpdatePrediction predicted_update(const UpdateRecord& record, const UpdateSettings& settings);

}  // namespace oracles
