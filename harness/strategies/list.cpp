#include "harness/strategies/list.h"

#include <algorithm>

namespace harness::strategies {

const std::vector<Strategy>& all() {
  static const std::vector<Strategy> kAll = {bisect(), matrix()};
  return kAll;
}

const Strategy& strategy_for(const Scenario& scenario) {
  return *std::find_if(all().begin(), all().end(), [&](const Strategy& strategy) {
    return strategy.is_for(scenario);
  });
}

}  // namespace harness::strategies
