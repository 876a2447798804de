#include "reports/sections/wording.h"

#include "nsa/base/text.h"
#include "reports/markdown.h"

namespace reports {

std::string outcome_text(harness::Outcome outcome) {
  return std::string("**") + harness::name_of(outcome) + "**";
}

std::string finding_title(const harness::Finding& finding) {
  const std::string where = finding.site.text();
  return escape(finding.code) + (where.empty() ? "" : " @ " + escape(where));
}

const harness::Finding* leading_finding(const CaseView& view) {
  if (!view.record.judgement || view.record.judgement->findings.empty()) return nullptr;
  const harness::Finding& first = view.record.judgement->findings.front();
  return first.role == harness::Role::teardown ? nullptr : &first;
}

std::string tally(const std::vector<CaseView>& cases) {
  std::map<harness::Outcome, std::int64_t> counts;
  for (const CaseView& one : cases) ++counts[one.outcome()];
  std::vector<std::string> parts;
  for (const auto& [outcome, count] : counts) {
    parts.push_back(std::to_string(count) + " " + harness::name_of(outcome));
  }
  return nsa::join(parts);
}

std::string case_name(const ReportView& view, const CaseView& one) {
  const std::string label = escape(one.record.label);
  return view.request.runs.size() > 1 ? label + " (run " + escape(one.run.name) + ")" : label;
}

}  // namespace reports
