// One trial at a time: all candidates, none, and then what the search for a minimal set that fails asks for.
#include "harness/scenario/bisect.h"

#include "harness/strategies/list.h"

namespace harness::strategies {
namespace {

std::vector<Case> next(const Case& base, std::span<const Tried> tried) {
  std::vector<BisectTrial> trials;
  for (const Tried& one : tried) trials.push_back({subset_of(*one.the_case), one.outcome});
  const BisectProgress progress = bisect_progress(base.scenario.bisect.candidates, trials);
  if (progress.state != BisectProgress::State::searching) return {};
  return {trial_of(base, progress.next)};
}

}  // namespace

Strategy bisect() {
  return {"bisect", [](const Scenario& scenario) { return !scenario.bisect.over.empty(); }, &next};
}

}  // namespace harness::strategies
