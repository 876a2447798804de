// Residual dropout (docs/data.md, "Residual dropout"): which numbers of a branch of a block are kept, and what the branch is then.
// A pure function of the seed and of a sequence's number, so that forward, recomputation and every other process have the same.
// Legend: R rows of B*S, E width.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "oracles/expected.h"
#include "oracles/model/stage_naming.h"
#include "oracles/rounding.h"
#include "oracles/training/data.h"

namespace oracles {

struct DropoutPlace {
  BatchPlace batch;
  std::int64_t layer = 0;
  std::int64_t site = 0;  // 0: what the attention gives, 1: what the mlp gives
};

// [B*S,E]: 1 / (1 - p) where a number is kept, else 0. REQUIRES: 0 <= p < 1.
Tensor dropout_factors(const DataConfig& config,
                       const DropoutPlace& place,
                       std::int64_t width,
                       double p);

// A branch, forward; back, the gradient of what leaves the branch. One product, rounded once:
//   2 summed |y| + stored|y| + f.
struct DropoutInputs {
  Tensor branch;  // [B*S,E], or some rows of it
  DataConfig data;
  DropoutPlace place;
  double p = 0;
  Rounding rounding = Rounding::of(Number::f32);
  std::vector<std::int64_t> rows = {};  // of B*S that the branch has; empty: all
};
Expected expected_dropout(const DropoutInputs& inputs);

const StageLibrary<DropoutInputs>& dropout_laws();

}  // namespace oracles
