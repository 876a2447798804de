// The written rules behind GO, CONDITIONAL GO and NO-GO.
#include <algorithm>

#include "harness/store/bisection.h"
#include "reports/report.h"

namespace reports {
namespace {

using harness::Outcome;

bool undecided(Outcome outcome) {
  return outcome == Outcome::skip || outcome == Outcome::inconclusive || outcome == Outcome::xfail;
}

}  // namespace

std::string decision(const std::vector<harness::RunRecord>& runs,
                     const std::vector<harness::CaseRecord>& cases) {
  const bool whole = std::all_of(
      runs.begin(), runs.end(), [](const harness::RunRecord& run) { return run.complete; });
  std::size_t passed = 0;
  std::size_t open = 0;
  const std::vector<Outcome> outcomes = harness::outcomes_that_count(cases);
  for (const Outcome outcome : outcomes) {
    if (outcome == Outcome::pass) ++passed;
    if (undecided(outcome)) ++open;
  }
  if (!whole || passed == 0 || passed + open < outcomes.size()) return "NO-GO";
  return open == 0 ? "GO" : "CONDITIONAL GO";
}

}  // namespace reports
