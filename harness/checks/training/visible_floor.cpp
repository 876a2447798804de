#include "harness/checks/training/visible_floor.h"

#include <cmath>

namespace harness::checks {

std::optional<double> visible_floor(const Scenario& scenario) {
  const nsa::DataConfig& data = scenario.training.data;
  const bool far = data.source == nsa::DataConfig::Source::long_range;
  // The token that is predicted repeats the one `distance` before it: distance - 1 before the last one seen.
  const std::int64_t reach = scenario.model.n_layers * (scenario.model.w - 1);
  if (!far || scenario.attention.gate != "win" || reach >= data.distance - 1) return std::nullopt;
  return std::log(static_cast<double>(scenario.model.vocab_size));
}

}  // namespace harness::checks
