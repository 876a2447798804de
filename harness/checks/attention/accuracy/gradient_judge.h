// Judges the gradients of one recorded attention layer. Each is compared with the oracle's backward
// at the recorded forward, so that a wrong forward is not blamed on them. Where the forward of a
// stage that a gradient goes through is another function than the oracle's, the oracle does not
// know the gradient: it is not judged, and said so by name.
#pragma once

#include <functional>
#include <set>

#include "harness/checks/attention/accuracy/layer_judge.h"
#include "harness/checks/error_budget.h"
#include "oracles/attention/stages.h"

namespace harness::checks {

// The oracle at what was recorded of a layer, and the oracle in the type on record where that is
// narrow: the yardstick (error_budget.h).
struct Forwards {
  const oracles::Stages& right;
  const oracles::Stages* plain = nullptr;
  double summed = 0.0;  // relative error that sums in float32 may have beside it
  // The yardstick with drawn roundings, 1 to kDraws; kept by its owner.
  std::function<const oracles::Stages&(int draw)> drawn = {};
};

// How far one gradient may be from the oracle's: within the ceiling of its sums; in a narrow type within the budget of the
// yardstick, the oracle's gradient in that type.
struct GradientLimits {
  const oracles::Tensor& wanted;
  double scale = 0.0;    // what its numbers are judged against
  double ceiling = 0.0;  // relative to it, where the type is not narrow
  double summed =
      0.0;  // in a narrow type: what the yardstick cannot know, such as errors of sums in float32
  Drawn yardstick =
      {};  // draw 0: rounded to the nearest numbers. None where the type is not narrow
  std::function<void(Measured&)> tell_heads_apart = {};
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

// Where an input's gradient in a narrow type was measured whose parts were added in that type.
inline constexpr const char* kAddedTooNarrow =
    "from the oracle in its type, which is further away than the one that adds the gradients of "
    "the "
    "input's consumers in that type too";

// Rows of a projection belong to heads or groups; columns of the one that puts out. `of` is the weight's name.
void tell_heads_apart(const std::string& of,
                      const oracles::AttentionConfig& config,
                      Measured& gradient);

// Adds to `verdict`. `wrong` are the stages whose forward is not the oracle's; `limit` is the relative
// error allowed where there is no yardstick. REQUIRES: the record has the gradient of the layer's
// output, all of it finite.
void judge_gradients(const LayerRecord& record,
                     const Forwards& forwards,
                     const std::set<oracles::Stage>& wrong,
                     double limit,
                     LayerJudgement& verdict);

}  // namespace harness::checks
