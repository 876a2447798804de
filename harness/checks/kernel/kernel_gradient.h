// Judges the gradients of one call of a foreign kernel. In a narrow type the yardstick is, number by number, off by as much as the
// worst of the computations that are all right.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/checks/attention/accuracy/gradient_judge.h"
#include "oracles/attention/backward.h"
#include "oracles/laws/backward_laws.h"

namespace harness::checks {

using Gradients = std::map<std::string, oracles::Tensor>;  // by the names of the inputs

// All gradients of one call.
struct GradientsOfCall {
  const Gradients& found;
  const Gradients& right;
  std::int64_t terms = 1;  // of the longest sum on the way
  // Of one right way to compute in the type; there may be more than one result. Asked for where the type is narrow.
  std::function<std::vector<Gradients>(const oracles::Kept&, oracles::Backward::Mean)> in_type;
  // What rounding of the products in a gate's gradient may make, which the yardstick cannot know.
  double rounding_of_gates = 0.0;
};

// What is wrong, as one departure without a place: none where all are right. Errors and comparisons go into `verdict`, all that was
// judged into `judged`, whose tensors are those of `call`.
[[nodiscard]] std::optional<Departure> judge_gradients_of_call(
    const LayerRecord& record,
    const GradientsOfCall& call,
    LayerJudgement& verdict,
    std::vector<oracles::RecordedGradient>& judged);

}  // namespace harness::checks
