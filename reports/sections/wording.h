// Words that several sections use.
#pragma once

#include <map>
#include <string>

#include "reports/view.h"

namespace reports {

// "**FAIL**": the word first, so that nobody depends on a colour.
[[nodiscard]] std::string outcome_text(harness::Outcome outcome);

// "CODE @ site", escaped.
[[nodiscard]] std::string finding_title(const harness::Finding& finding);

// The finding that decides a case: the first one unless nothing but teardown was found; or nullptr.
[[nodiscard]] const harness::Finding* leading_finding(const CaseView& view);

// How many cases have each outcome, in the order of the outcomes: "3 PASS, 1 FAIL".
[[nodiscard]] std::string tally(const std::vector<CaseView>& cases);

// Label, with the run's name where a report has several runs.
[[nodiscard]] std::string case_name(const ReportView& view, const CaseView& one);

}  // namespace reports
