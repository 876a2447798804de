// The written rules behind GO, CONDITIONAL GO and NO-GO.
#include <algorithm>

#include "reports/report.h"

namespace reports {
namespace {

using harness::Outcome;

Outcome outcome_of(const harness::CaseRecord& record) {
  if (!record.skip_reason.empty()) return Outcome::skip;
  return record.judgement ? record.judgement->outcome : Outcome::inconclusive;
}

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
  for (const harness::CaseRecord& record : cases) {
    const Outcome outcome = outcome_of(record);
    if (outcome == Outcome::pass) ++passed;
    if (undecided(outcome)) ++open;
  }
  if (!whole || passed == 0 || passed + open < cases.size()) return "NO-GO";
  return open == 0 ? "GO" : "CONDITIONAL GO";
}

}  // namespace reports
