// The written rules behind GO, CONDITIONAL GO and NO-GO.
#include <algorithm>

#include "harness/judge/asked.h"
#include "harness/store/bisection.h"
#include "reports/report.h"

namespace reports {
namespace {

using harness::Outcome;

// Passed by fewer checks than the scenario names, since the case was watched less closely. The key stands in no other case.
bool passed_unasked(const harness::CaseRecord& record) {
  const bool passed = record.judgement && record.judgement->outcome == Outcome::pass;
  if (!passed || record.case_json.find("\"observe\":") == std::string::npos) return false;
  const harness::Case read = harness::case_from_json(record.case_json, "case " + record.label);
  return !is_fully_asked(read.scenario, *record.judgement);
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
  const std::vector<Outcome> outcomes = harness::outcomes_that_count(cases);
  for (const Outcome outcome : outcomes) {
    if (outcome == Outcome::pass) ++passed;
    if (undecided(outcome)) ++open;
  }
  if (!whole || passed == 0 || passed + open < outcomes.size()) return "NO-GO";
  return open + not_fully_asked(cases) == 0 ? "GO" : "CONDITIONAL GO";
}

std::size_t not_fully_asked(const std::vector<harness::CaseRecord>& cases) {
  return static_cast<std::size_t>(std::count_if(cases.begin(), cases.end(), &passed_unasked));
}

}  // namespace reports
