// One line a case, then one line a check of every case.
#include <algorithm>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string cases_table(const ReportView& view) {
  Table table({"outcome", "case", "seconds", "planted fault", "reason"});
  for (const CaseView& one : view.cases) {
    table.row({outcome_text(one.outcome()),
               case_name(view, one),
               nsa::to_text(one.record.seconds, 4),
               one.planted().empty() ? "–" : escape(one.planted()),
               escape(one.reason())});
  }
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

std::string body(const ReportView& view) {
  if (view.cases.empty()) return "No case was planned.\n\n";
  std::string text = cases_table(view) + chart(view);
  for (const CaseView& one : view.cases) text += checks_table(view, one);
  return text;
}

}  // namespace

Section results() {
  return {"Results", &body, true};
}

}  // namespace reports::section
