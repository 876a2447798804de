// The written rules behind GO, CONDITIONAL GO and NO-GO.
#include <algorithm>

#include "harness/judge/asked.h"
#include "harness/store/bisection.h"
#include "reports/report.h"

namespace reports {
namespace {

using harness::Outcome;

bool is_command(const harness::CaseRecord& record) {
  return record.case_json.find("\"kind\":\"command\"") != std::string::npos;
}

// Passed by fewer checks than the scenario names: the case was watched less closely, or is a command that was seen from outside.
// The keys stand in no other case.
bool passed_unasked(const harness::CaseRecord& record) {
  const bool passed = record.judgement && record.judgement->outcome == Outcome::pass;
  const bool watched_less = record.case_json.find("\"observe\":") != std::string::npos;
  if (!passed || !(watched_less || is_command(record))) return false;
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
  if (!whole || passed + open < outcomes.size()) return "NO-GO";
  // On a training of the user's own nothing is decided that was not looked at.
  if (!cases.empty() && std::all_of(cases.begin(), cases.end(), is_command)) {
    if (open > 0) return kInconclusive;
    if (not_fully_asked(cases) > 0) return kEndedByItself;
  }
  if (passed == 0) return "NO-GO";
  return open + not_fully_asked(cases) == 0 ? "GO" : "CONDITIONAL GO";
}

std::size_t not_fully_asked(const std::vector<harness::CaseRecord>& cases) {
  return static_cast<std::size_t>(std::count_if(cases.begin(), cases.end(), &passed_unasked));
}

}  // namespace reports
