// An index: a line for each scenario in a long report, a line for each case, then a line for each check. What passed is folded.
#include <algorithm>
#include <cmath>
#include <map>

#include "harness/judge/asked.h"
#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/again.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/failures.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

using harness::Outcome;

// An index has short lines: of what failed the first screen has the whole sentence, and a passing case needs none.
std::string shown_reason(const ReportView& view, const CaseView& one) {
  const std::string reason = one.reason();
  const bool cut =
      is_failure(one.outcome()) || (tells_by_scenario(view) && one.outcome() == Outcome::pass);
  return escape(cut ? shortened(reason) : reason);
}

// The reason of what failed stands in the first screen and with its checks.
std::string cases_table(const ReportView& view, const Cases& cases) {
  Table table({"outcome", "case", "profile", "seconds", "planted fault", "reason"});
  for (const CaseView* one : cases) {
    table.row({outcome_text(one->outcome()),
               case_name(view, *one),
               one->record.profile.empty() ? "–" : escape(one->record.profile),
               nsa::to_text(one->record.seconds, 4),
               one->planted().empty() ? "–" : escape(one->planted()),
               shown_reason(view, *one)});
  }
  return table.empty() ? "" : table.text();
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

std::string judged_again_text(const harness::CaseRecord& record) {
  if (record.judgements < 2) return "";
  std::string text = "Judged " + std::to_string(record.judgements) + " times; ";
  if (record.judged_without == 0) return text + "this is the newest judgement.\n\n";
  return text + "this is the newest judgement that had all that was recorded (" +
         std::to_string(record.judged_without) + " had less).\n\n";
}

std::string checks_table(const ReportView& view, const CaseView& one) {
  if (!one.record.judgement || one.record.judgement->verdicts.empty()) return "";
  Table table({"check", "verdict", "reason"});
  for (const auto& result : one.record.judgement->verdicts) {
    table.row({escape(result.check),
               std::string("**") + harness::name_of(result.verdict) + "**",
               escape(result.reason)});
  }
  if (one.the_case) {
    const harness::Scenario& scenario = one.the_case->scenario;
    for (const std::string& check : not_asked(scenario, *one.record.judgement)) {
      const std::string why = why_not_asked(scenario, check);
      if (!why.empty()) table.row({escape(check), "not asked", why});
    }
  }
  std::string text = "### Checks of " + case_name(view, one) + "\n\n" + table.text();
  return text + judged_again_text(one.record);
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

// What the other sections leave out of them is stored.
std::string in_brief_text(const ReportView& view) {
  const Cases brief = cases_told(view, Telling::in_brief);
  if (brief.empty()) return "";
  const harness::RunRecord& run = brief.front()->run;
  return "Of " + counted(static_cast<std::int64_t>(brief.size()), "case") +
         " that were not decided, only the rows above are told here. What their checks saw:\n\n" +
         code_block(on_database(run, "explain " + run.name + " CASE") + "\n", "sh") + "\n";
}

std::string results_body(const ReportView& view) {
  if (view.cases.empty()) return "No case was planned.\n\n";
  if (told_at_once(view)) return "";
  const auto is_listed = [](const CaseView* one) { return is_open(*one) || one->in_brief; };
  Cases failed = all_cases(view);
  std::erase_if(failed, [&](const CaseView* one) { return !is_listed(one); });
  Cases rest = all_cases(view);
  std::erase_if(rest, is_listed);
  return scenarios_table(view) + chart(view) + cases_table(view, failed) + in_brief_text(view) +
         folded("Results: what passed, was skipped or is known to fail (" +
                    counted(static_cast<std::int64_t>(rest.size()), "case") + ")",
                cases_table(view, rest)) +
         told(view, "Checks of what passed or is known to fail", &checks_table, &checks_of_group);
}

}  // namespace

Section results() {
  return {"Results", &results_body, true};
}

}  // namespace reports::section
