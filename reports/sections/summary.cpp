// What a stranger has to know, in a few sentences.
#include <algorithm>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/list.h"
#include "reports/sections/summary_groups.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

using harness::Outcome;

std::string why(const ReportView& view) {
  const bool whole = std::all_of(view.request.runs.begin(),
                                 view.request.runs.end(),
                                 [](const harness::RunRecord& run) { return run.complete; });
  if (!whole) return "a run is incomplete: what it did not do is not known to be good";
  const bool folded = std::any_of(view.bisections.begin(),
                                  view.bisections.end(),
                                  [](const auto& one) { return one.outcome().has_value(); });
  if (view.decision == "GO" && folded) return "what a bisection was expected to find was found";
  if (view.decision == "GO") return "every case passed";
  const auto passed = [](const CaseView& one) { return one.outcome() == Outcome::pass; };
  if (!folded && std::none_of(view.cases.begin(), view.cases.end(), passed)) {
    return "no case passed";
  }
  if (view.decision == "CONDITIONAL GO") return "nothing failed, but not every case was decided";
  return "at least one case failed or could not be run";
}

// What was shown, taken from the verdicts that passed.
std::string shown(const CaseView& one) {
  std::string text;
  for (const auto& result : one.record.judgement->verdicts) {
    if (result.verdict != harness::Verdict::pass) continue;
    text += "  - " + escape(result.check) + ": " + escape(result.reason) + "\n";
  }
  return text;
}

std::string summary_of_case(const ReportView& view, const CaseView& one) {
  std::string text = "- " + outcome_text(one.outcome()) + " " + case_name(view, one);
  if (!one.planted().empty()) text += " (with the planted fault " + escape(one.planted()) + ")";
  return text + ": " + escape(one.reason()) + "\n";
}

// Worst first.
std::string every_case(const ReportView& view) {
  Cases order = all_cases(view);
  std::stable_sort(order.begin(), order.end(), [](const CaseView* a, const CaseView* b) {
    return severity(a->outcome()) < severity(b->outcome());
  });
  std::string text;
  for (const CaseView* one : order) text += summary_of_case(view, *one);
  return text;
}

std::string where_the_rest_is(const ReportView& view) {
  const auto& runs = view.request.runs;
  const std::string command = runs.size() == 1 ? "`nsa-harness report RUN --format json` (RUN is " +
                                                     escape(runs[0].name) + ")"
                                               : "the same report with `--format json`";
  return "Below, cases that passed are told by scenario, and what did not pass case by case; " +
         command + " has the checks, measured values and metrics of every case.\n\n";
}

std::string summary_body(const ReportView& view) {
  std::string text = "**" + view.decision + "**: " + why(view) + ". Of " +
                     counted(static_cast<std::int64_t>(view.cases.size()), "case") + ": " +
                     tally(view.cases) + ".\n\n";
  text +=
      tells_by_scenario(view) ? where_the_rest_is(view) + summary_groups(view) : every_case(view);
  if (view.cases.size() == 1 && view.cases[0].record.judgement &&
      view.cases[0].outcome() == Outcome::pass && view.cases[0].planted().empty()) {
    text += shown(view.cases[0]);
  }
  return text +
         "\nA case is one training run of the reference model as its scenario describes it; its "
         "ranks only record, and "
         "the checks judge what was recorded. INCONCLUSIVE and SKIP are never counted as "
         "passed.\n\n";
}

}  // namespace

Section summary() {
  return {"Summary", &summary_body, true};
}

}  // namespace reports::section
