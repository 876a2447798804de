// Against the newest earlier run of the same case: new, fixed, returned, changed, not run.
#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

using harness::Outcome;

Outcome before(const CaseView& one) {
  return one.previous->judgement ? one.previous->judgement->outcome : Outcome::inconclusive;
}

std::string code_of(const harness::CaseRecord& record) {
  return record.judgement && !record.judgement->findings.empty()
             ? record.judgement->findings.front().code
             : "";
}

std::string change_of(const CaseView& one) {
  if (one.outcome() == Outcome::skip) return "not run";
  if (!one.previous) return "first time";
  const bool was_good = before(one) == Outcome::pass;
  const bool is_good = one.outcome() == Outcome::pass;
  if (was_good && is_good) return "";
  if (!was_good && is_good) return "fixed";
  if (was_good) return one.failed_earlier ? "returned" : "new";
  const bool same = before(one) == one.outcome() && code_of(*one.previous) == code_of(one.record);
  return same ? "still" : "changed";
}

std::string body(const ReportView& view) {
  Table table({"change", "case", "before", "now"});
  std::int64_t same = 0;
  for (const CaseView& one : view.cases) {
    const std::string change = change_of(one);
    if (change.empty()) {
      ++same;
      continue;
    }
    table.row({change,
               case_name(view, one),
               one.previous ? harness::name_of(before(one)) : "–",
               harness::name_of(one.outcome())});
  }
  for (const std::string& label : view.not_run) table.row({"not run", escape(label), "–", "–"});
  std::string text = table.empty() ? "" : table.text();
  if (same > 0) text += counted(same, "case") + " passed before and passed again.\n\n";
  return text;
}

}  // namespace

Section changes() {
  return {"What changed since the run before", &body, false};
}

}  // namespace reports::section
