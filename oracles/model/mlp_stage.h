// The mlp of a block, y = fc2 silu(fc1 x), judged from recorded rows of its input x, the result of
// norm2: any rows, since rows do not meet. Forward and the input's gradient; the weights' gradients
// are products of recorded matrices (products.h).
// Legend: R rows, E width, H hidden width.
//
// Bounds follow the rows through both maps (linear_rows.h). silu has a slope of at most 1.1, its
// derivative one of at most 0.5; both are computed with six roundings.
#pragma once

#include <string>
#include <vector>

#include "oracles/expected.h"
#include "oracles/model/norm_stage.h"
#include "oracles/model/stage_naming.h"
#include "oracles/rounding.h"

namespace oracles {

struct MlpWeights {
  std::string name;  // "" for the block's own
  Matrix fc1;        // [H,E]
  Matrix fc2;        // [E,H]
};

struct MlpInputs {
  Tensor x;  // [R,E]
  MlpWeights weights;
  std::vector<NamedRows> other_inputs = {};    // [R,E]: what enters norm2, the block, ...
  std::vector<MlpWeights> other_weights = {};  // of other blocks
  Rounding rounding = Rounding::of(Number::f32);
  int threads = 0;
};

// [R,E]. All throw std::invalid_argument where shapes do not fit.
Expected expected_mlp(const MlpInputs& inputs);
// [R,E]: what the mlp adds to the gradient of x, from dy [R,E].
Expected expected_mlp_gradient(const MlpInputs& inputs, const Tensor& dy);
// silu of recorded hidden rows [R,H], where they are on record: far narrower than through both maps.
Expected expected_silu(const Tensor& hidden, const Rounding& rounding);
// da silu'(hidden) of recorded rows [R,H].
Expected expected_silu_gradient(const Tensor& hidden, const Tensor& da, const Rounding& rounding);

const StageLibrary<MlpInputs>& mlp_laws();

struct MlpGradientInputs {
  const MlpInputs& forward;
  const Tensor& dy;  // of what the mlp adds
};
const StageLibrary<MlpGradientInputs>& mlp_gradient_laws();

}  // namespace oracles
