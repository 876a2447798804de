// One line a case, then one line a check of every case; a long report has one line a scenario before them, and one line a
// check for the cases of a scenario that passed.
#include <algorithm>
#include <cmath>
#include <map>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

using harness::Outcome;

// The index of a long report keeps a passing case to one short line.
std::string shown_reason(const ReportView& view, const CaseView& one) {
  const std::string reason = one.reason();
  const bool cut = tells_by_scenario(view) && one.outcome() == Outcome::pass;
  return escape(cut ? shortened(reason) : reason);
}

std::string cases_table(const ReportView& view) {
  Table table({"outcome", "case", "seconds", "planted fault", "reason"});
  for (const CaseView& one : view.cases) {
    table.row({outcome_text(one.outcome()),
               case_name(view, one),
               nsa::to_text(one.record.seconds, 4),
               one.planted().empty() ? "–" : escape(one.planted()),
               shown_reason(view, one)});
  }
  return table.text();
}

// Sums of hours need no fractions.
std::string seconds_text(double seconds) {
  constexpr double kLong = 1000.0;
  const bool whole = seconds >= kLong && seconds < 1e15;
  return whole ? grouped(std::llround(seconds)) : nsa::to_text(seconds, 4);
}

std::vector<std::string> scenario_row(const std::string& name,
                                      const Cases& cases,
                                      const std::map<int, Outcome>& outcomes) {
  std::map<Outcome, std::int64_t> counts;
  double total = 0.0;
  double longest = 0.0;
  for (const CaseView* one : cases) {
    ++counts[one->outcome()];
    total += one->record.seconds;
    longest = std::max(longest, one->record.seconds);
  }
  std::vector<std::string> row = {name, std::to_string(cases.size())};
  for (const auto& [severity, outcome] : outcomes) {
    row.push_back(counts[outcome] == 0 ? "–" : std::to_string(counts[outcome]));
  }
  row.push_back(seconds_text(total));
  row.push_back(seconds_text(longest));
  return row;
}

std::string scenarios_table(const ReportView& view) {
  if (!tells_by_scenario(view)) return "";
  std::map<int, Outcome> outcomes;  // that occur, the worst first
  for (const CaseView& one : view.cases) outcomes[severity(one.outcome())] = one.outcome();
  std::vector<std::string> header = {"scenario", "cases"};
  for (const auto& [severity, outcome] : outcomes) header.push_back(harness::name_of(outcome));
  header.insert(header.end(), {"seconds, all", "seconds, longest"});
  Table table(header);
  for (const Cases& cases : by_scenario(all_cases(view))) {
    table.row(scenario_row(escape(cases.front()->record.scenario), cases, outcomes));
  }
  table.row(scenario_row("all", all_cases(view), outcomes));
  return table.text();
}

// A picture pays only where there are several cases to compare.
std::string chart(const ReportView& view) {
  constexpr std::size_t kFewest = 4;
  if (view.cases.size() < kFewest) return "";
  std::map<harness::Outcome, int> counts;
  for (const CaseView& one : view.cases) ++counts[one.outcome()];
  std::string text = "pie showData\n    title outcomes\n";
  for (const auto& [outcome, count] : counts) {
    text +=
        std::string("    \"") + harness::name_of(outcome) + "\" : " + std::to_string(count) + "\n";
  }
  return code_block(text, "mermaid") + "\n";
}

std::string checks_table(const ReportView& view, const CaseView& one) {
  if (!one.record.judgement || one.record.judgement->verdicts.empty()) return "";
  Table table({"check", "verdict", "reason"});
  for (const auto& result : one.record.judgement->verdicts) {
    table.row({escape(result.check),
               std::string("**") + harness::name_of(result.verdict) + "**",
               escape(result.reason)});
  }
  std::string text = "### Checks of " + case_name(view, one) + "\n\n" + table.text();
  if (one.record.judgements > 1) {
    text += "Judged " + std::to_string(one.record.judgements) +
            " times; this is the newest judgement.\n\n";
  }
  return text;
}

struct Passed {  // a check over the cases of a group
  std::string check;
  std::int64_t cases = 0;
  std::int64_t judged = 0;
  std::string reason;  // of the first case that passed it, else of the first one
};

std::vector<Passed> passed_of(const Cases& group) {
  std::vector<Passed> checks;
  for (const CaseView* one : group) {
    for (const auto& result : one->record.judgement->verdicts) {
      auto at = std::find_if(checks.begin(), checks.end(), [&](const Passed& known) {
        return known.check == result.check;
      });
      if (at == checks.end()) at = checks.insert(at, {result.check, 0, 0, ""});
      const bool passed = result.verdict == harness::Verdict::pass;
      if (at->judged == 0 || (passed && at->cases == 0)) at->reason = result.reason;
      ++at->judged;
      if (passed) ++at->cases;
    }
  }
  return checks;
}

std::string checks_of_group(const ReportView& view, const Cases& group) {
  if (group.size() == 1) return checks_table(view, *group.front());
  Table table({"check", "passed", "one of the reasons"});
  for (const Passed& check : passed_of(group)) {
    table.row({escape(check.check),
               std::to_string(check.cases) + " of " + std::to_string(check.judged),
               escape(check.reason)});
  }
  return table.empty() ? "" : "### Checks of " + titled(view, group) + "\n\n" + table.text();
}

std::string results_body(const ReportView& view) {
  if (view.cases.empty()) return "No case was planned.\n\n";
  std::string text = scenarios_table(view) + cases_table(view) + chart(view);
  for (const CaseView* one : told_in_full(view)) text += checks_table(view, *one);
  for (const Cases& group : told_together(view)) text += checks_of_group(view, group);
  return text;
}

}  // namespace

Section results() {
  return {"Results", &results_body, true};
}

}  // namespace reports::section
