#include "harness/checks/gradients/twin_difference.h"

#include <algorithm>
#include <cmath>

#include "harness/checks/ceilings.h"
#include "harness/checks/largest.h"
#include "harness/checks/parameter_names.h"

namespace harness::checks {

Relative relative_error(const nsa::TensorView& a, const nsa::TensorView& b) {
  const Reals x(a);
  const Reals y(b);
  Relative seen;
  if (x.size() != y.size()) return {std::nan(""), 1.0};
  for (std::size_t i = 0; i < x.size(); ++i) {
    raise_to(seen.worst, std::abs(x[i] - y[i]));
    seen.scale = std::max(seen.scale, std::abs(y[i]));
  }
  return seen;
}

std::map<std::string, GradientError> gradient_errors(const Scenario& scenario,
                                                     const nsa::SafetensorsFile& own,
                                                     const nsa::SafetensorsFile& twin,
                                                     const std::vector<std::string>& params) {
  const nsa::TrainingConfig& training = scenario.training;
  const std::int64_t sequences = training.batch_size * training.accumulate;
  const LongestSums sums(scenario.model, sequences, training.seq_len);
  double largest = 0.0;
  std::map<std::string, Relative> seen;
  for (const std::string& param : params) {
    if (!own.contains(param) || !twin.contains(param)) continue;
    seen[param] = relative_error(own.at(param), twin.at(param));
    largest = std::max(largest, seen[param].scale);
  }
  std::map<std::string, GradientError> errors;
  for (const auto& [param, relative] : seen) {
    const double scale = std::max(relative.scale, kSmallestScaleShare * largest);
    errors[param] = {relative.worst == 0.0 ? 0.0 : relative.worst / scale,
                     ceiling(sums.gradient, Reals(own.at(param)).unit_roundoff())};
  }
  return errors;
}

std::vector<std::string> above_ceiling(const Scenario& scenario,
                                       const nsa::SafetensorsFile& own,
                                       const nsa::SafetensorsFile& twin,
                                       const std::vector<std::string>& params) {
  const auto errors = gradient_errors(scenario, own, twin, params);
  std::vector<std::string> above;
  for (const std::string& param : params) {
    const auto at = errors.find(param);
    if (at == errors.end() || at->second.is_above()) above.push_back(param);
  }
  return above;
}

std::vector<std::string> first_in_backward(const std::vector<std::string>& params) {
  const auto rank_of = [](const std::string& param) {
    if (layer_of(param) >= 0) return layer_of(param);
    return param == "embed.weight" ? -1 : 1 << 20;
  };
  int last = -1;
  for (const std::string& param : params) last = std::max(last, rank_of(param));
  std::vector<std::string> first;
  std::copy_if(
      params.begin(), params.end(), std::back_inserter(first), [&](const std::string& param) {
        return rank_of(param) == last;
      });
  return first;
}

}  // namespace harness::checks
