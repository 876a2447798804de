// The rest of the first screen, after its table: what failed with its cause, next action and command; what was not decided; what
// passed, in a line.
#include <algorithm>
#include <map>

#include "harness/judge/asked.h"
#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/failures.h"
#include "reports/sections/list.h"
#include "reports/sections/summary_groups.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

using harness::Outcome;

// What was shown, taken from the verdicts that passed.
std::string shown(const CaseView& one) {
  std::string text;
  for (const auto& result : one.record.judgement->verdicts) {
    if (result.verdict != harness::Verdict::pass) continue;
    text += "- " + escape(result.check) + ": " + escape(result.reason) + "\n";
  }
  return text;
}

// What passed without some of its checks, by what was left out.
std::string not_asked_lines(const ReportView& view) {
  if (view.unasked == 0) return "";
  std::map<std::string, Cases> cases_of;
  for (const CaseView& one : view.cases) {
    if (one.outcome() != Outcome::pass || !one.record.judgement || !one.the_case) continue;
    const harness::Scenario& scenario = one.the_case->scenario;
    if (is_fully_asked(scenario, *one.record.judgement)) continue;
    cases_of[not_asked_text(scenario, *one.record.judgement)].push_back(&one);
  }
  std::string text;
  for (const auto& [left_out, cases] : cases_of) {
    text += "- " + (cases.size() == 1 ? case_name(view, *cases.front()) : count_text(cases)) +
            ": " + escape(left_out) + "\n";
  }
  return "## What was not asked\n\n" + text + "\n";
}

Cases with_outcome(const ReportView& view, Outcome outcome) {
  Cases cases = all_cases(view);
  std::erase_if(cases, [&](const CaseView* one) { return one->outcome() != outcome; });
  return cases;
}

std::string what_passed(const ReportView& view) {
  const Cases passed = with_outcome(view, Outcome::pass);
  if (passed.empty()) return "";
  constexpr std::size_t kMostNames = 6;
  const CaseView& first = *passed.front();
  const bool alone = passed.size() == 1;
  const std::string line =
      outcome_text(Outcome::pass) + " " +
      (alone ? case_name(view, first)
             : count_text(passed) + ": " + scenarios_text(passed, kMostNames)) +
      ".\n\n";
  if (told_at_once(view)) return line + shown(first) + "\n";
  if (alone) return line;
  return line + folded("What passed, scenario by scenario", passed_groups(view) + "\n");
}

std::string summary_body(const ReportView& view) {
  std::string text;
  const std::string failures = failures_text(view);
  if (!failures.empty()) text += "## What failed\n\n" + failures;
  const std::string open = open_groups(view);
  if (!open.empty()) text += "## What was not decided, or is known\n\n" + open + "\n";
  return text + not_asked_lines(view) + what_passed(view);
}

}  // namespace

Section summary() {
  return {"", &summary_body, true};
}

}  // namespace reports::section
