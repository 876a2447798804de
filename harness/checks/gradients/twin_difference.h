// How a rank's local gradients differ from the twin's, by more than rounding explains, and where the backward met it first.
// Shared by the checks that compare with the twin: one ceiling, one order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/checks/artefacts.h"

namespace harness::checks {

struct Relative {
  double worst = 0.0;  // largest |a - b|; NaN where sizes differ or an entry is none
  double scale = 0.0;  // largest |b|
};
[[nodiscard]] Relative relative_error(const nsa::TensorView& a, const nsa::TensorView& b);

// |a - b| relative to the larger of |b| and what is small beside the largest of `params`, and its ceiling. Of those that
// both files have.
struct GradientError {
  double value = 0.0;
  double limit = 0.0;
  [[nodiscard]] bool is_above() const { return !(value <= limit); }
};
[[nodiscard]] std::map<std::string, GradientError> gradient_errors(
    const Scenario& scenario,
    const nsa::SafetensorsFile& own,
    const nsa::SafetensorsFile& twin,
    const std::vector<std::string>& params);

// Of `params`, those whose difference is above the first-principles ceiling, in the same order. A tensor that one
// of the files lacks is kept.
[[nodiscard]] std::vector<std::string> above_ceiling(const Scenario& scenario,
                                                     const nsa::SafetensorsFile& own,
                                                     const nsa::SafetensorsFile& twin,
                                                     const std::vector<std::string>& params);

// The parameters of the layer that the backward meets first, of those given: head and final norm, then the last layer.
[[nodiscard]] std::vector<std::string> first_in_backward(const std::vector<std::string>& params);

}  // namespace harness::checks
