#include "reports/sections/wording.h"

#include <algorithm>
#include <array>

#include "nsa/base/text.h"
#include "reports/markdown.h"

namespace reports {

std::string outcome_text(harness::Outcome outcome) {
  return std::string("**") + harness::name_of(outcome) + "**";
}

int severity(harness::Outcome outcome) {
  using harness::Outcome;
  constexpr std::array kWorstFirst = {Outcome::fail,
                                      Outcome::hang,
                                      Outcome::slow,
                                      Outcome::crash,
                                      Outcome::oom,
                                      Outcome::xpass,
                                      Outcome::error,
                                      Outcome::inconclusive,
                                      Outcome::xfail,
                                      Outcome::skip,
                                      Outcome::pass};
  const auto at = std::find(kWorstFirst.begin(), kWorstFirst.end(), outcome);
  return static_cast<int>(at - kWorstFirst.begin());
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

std::string shortened(const std::string& text) {
  constexpr std::size_t kLongest = 60;  // of a cell beside a label
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest;
  const auto inside = [&](std::size_t at) {  // of a character of several bytes
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (end > 0 && inside(end)) --end;
  return text.substr(0, end) + " ...";
}

std::string case_name(const ReportView& view, const CaseView& one) {
  const std::string label = escape(one.record.label);
  return view.request.runs.size() > 1 ? label + " (run " + escape(one.run.name) + ")" : label;
}

}  // namespace reports
