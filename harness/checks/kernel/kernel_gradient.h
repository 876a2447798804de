// Judges one gradient of a foreign kernel: within the ceiling of its sums, and in a narrow type within the budget of
// a yardstick, the oracle's gradient in that type.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/checks/attention/accuracy/layer_judge.h"
#include "harness/checks/error_budget.h"
#include "oracles/attention/backward.h"
#include "oracles/laws/match.h"

namespace harness::checks {

struct GradientLimits {
  const oracles::Tensor& wanted;
  const oracles::Tensor* plain = nullptr;  // the yardstick; null where the type is not narrow
  double least_scale = 0.0;                // numbers far below it are judged against it
  std::int64_t terms = 1;                  // of the longest sum on the way
  double rounded =
      0.0;  // in a narrow type: what rounding of the sum's terms may make, which the yardstick cannot know
  Drawn drawn =
      {};  // yardsticks whose roundings are drawn, asked for where the gradient is out of the budget of `plain`
};

struct JudgedGradient {
  ErrorOfTensor error;
  std::string where;         // it was measured, where that is not the whole tensor
  oracles::Allowed allowed;  // to any of its numbers
  bool wrong = false;
};

// `record` says the arithmetic.
[[nodiscard]] JudgedGradient judge_gradient(const LayerRecord& record,
                                            const oracles::Tensor& found,
                                            const GradientLimits& limits);

// One way to compute a branch's backward in a narrow type.
struct RightBackward {
  bool narrow_products;
  oracles::Backward::Mean mean;
};

// The places where a backward in a narrow type is rounded are the kernel's choice, and what is lost at one of them says nothing of
// another: the rows of dq are differences. All of these are right: products of narrow numbers with the mean from the stored output;
// products of wide ones; what automatic differentiation makes of rounded probabilities, or of rounded numerators of the softmax
// beside a sum that is not rounded; and, where 1/sqrt(d_k) is no power of two, the first with that factor after the rounding.
[[nodiscard]] std::vector<RightBackward> right_backwards(std::int64_t d_k);

// `worst` becomes `plain` where that is further from what is right.
void keep_further(const oracles::Tensor& plain,
                  const oracles::Tensor& right,
                  oracles::Tensor& worst);

}  // namespace harness::checks
