// CODE @ site — what happened — what was ruled out — next action, of every case that has findings; what several have alike is
// told once. A long report names in a row what passing cases found because they expect it, and what is known to fail.
#include <algorithm>

#include "harness/judge/wording/find_wording.h"
#include "reports/markdown.h"
#include "reports/sections/alike.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/failures.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

// `on_top`: the first screen of this report has told what happened and what to do.
std::string of_finding(const harness::Finding& finding, bool on_top) {
  std::string text = "**" + finding_title(finding) + "** (" + harness::name_of(finding.role) +
                     ", " + harness::name_of(finding.status) + ")\n\n";
  if (!on_top) text += "- what happened: " + escape(finding.statement) + "\n";
  for (const auto& [name, value] : harness::details_of(finding)) {
    text += "- evidence: " + escape(name + ": " + value) + "\n";
  }
  if (!finding.ruled_out.empty()) text += "- ruled out: " + escape(finding.ruled_out) + "\n";
  if (!finding.next_action.empty() && !on_top)
    text += "- next action: " + escape(finding.next_action) + "\n";
  return text + "\n";
}

// What decides; consequences are folded under the root cause.
bool is_told_here(const harness::Finding& finding) {
  return finding.role == harness::Role::initiating || finding.role == harness::Role::unknown;
}

// Without the name of the case; "" where nothing is told.
std::string findings_of_case(const ReportView& view, const CaseView& one) {
  if (!one.record.judgement) return "";
  std::string found;
  for (const auto& finding : one.record.judgement->findings) {
    const bool on_top =
        view.cases.size() == 1 && is_failure(one.outcome()) && &finding == leading_finding(one);
    if (is_told_here(finding)) found += of_finding(finding, on_top);
  }
  if (found.empty()) return "";
  std::string text;
  if (!one.planted().empty()) {
    text += "The fault " + escape(one.planted()) + " was planted on purpose" +
            (one.expects() ? ": this case passes when it is found.\n\n" : ".\n\n");
  }
  if (one.outcome() == harness::Outcome::xfail) {
    text += "Known: " + escape(one.reason()) + "\n\n";
  }
  return text + found;
}

std::string expected_or_known(const ReportView& view) {
  Table table({"outcome", "case", "planted fault", "found"});
  for (const CaseView& one : view.cases) {
    const bool known = one.outcome() == harness::Outcome::xfail;
    if (!known && telling_of(one) != Telling::found) continue;
    const harness::Finding* found = leading_finding(one);
    table.row({outcome_text(one.outcome()),
               case_name(view, one),
               one.planted().empty() ? "–" : escape(one.planted()),
               found == nullptr ? "–" : finding_title(*found)});
  }
  return table.empty() ? "" : "### Expected to be found, or known\n\n" + table.text();
}

std::string findings_body(const ReportView& view) {
  std::string text;
  const auto title = [&](const CaseView& one) {
    return case_name(view, one) + ": " + harness::name_of(one.outcome());
  };
  text += told_once(view, title, [&](const CaseView& one) { return findings_of_case(view, one); });
  return tells_by_scenario(view) ? text + expected_or_known(view) : text;
}

}  // namespace

Section findings() {
  return {"Critical findings", &findings_body, false};
}

}  // namespace reports::section
