// What it supersedes: what somebody said of a case (`claim`), and beside it the verdict of this run.
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

// The finding that decides the case; of a case that passed without one, what its first check saw.
std::string verdict(const CaseView& one) {
  if (const harness::Finding* finding = leading_finding(one)) {
    return finding_title(*finding) + ": " + escape(finding->statement);
  }
  const auto& judgement = one.record.judgement;
  const bool passed = one.outcome() == harness::Outcome::pass;
  if (!passed || judgement->verdicts.empty()) return escape(one.reason());
  return escape(judgement->verdicts.front().reason);
}

std::string outcome_of(const CaseView& one) {
  const bool found = one.expects() && one.outcome() == harness::Outcome::pass;
  return outcome_text(one.outcome()) + (found ? ": what it expects was found" : "");
}

std::string supersedes_body(const ReportView& view) {
  Table table({"case", "what was said", "outcome", "verdict of this run"});
  for (const CaseView& one : view.cases) {
    if (!one.the_case || one.the_case->scenario.claim.empty()) continue;
    table.row({case_name(view, one),
               escape(one.the_case->scenario.claim),
               outcome_of(one),
               verdict(one)});
  }
  return table.empty() ? "" : table.text();
}

}  // namespace

Section supersedes() {
  return {"What it supersedes", &supersedes_body, true};
}

}  // namespace reports::section
