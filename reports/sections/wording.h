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

// Worst first: what failed, what could not be run, what was not decided, what is known, what was skipped, what passed.
[[nodiscard]] int severity(harness::Outcome outcome);  // 0 is the worst

// The finding that decides a case: the first one unless nothing but teardown was found; or nullptr.
[[nodiscard]] const harness::Finding* leading_finding(const CaseView& view);

// How many cases have each outcome, in the order of the outcomes: "3 PASS, 1 FAIL".
[[nodiscard]] std::string tally(const std::vector<CaseView>& cases);

// The beginning of a long text, for a table that is an index; whole characters. Not escaped.
[[nodiscard]] std::string shortened(const std::string& text);

// Label, with the run's name where a report has several runs.
[[nodiscard]] std::string case_name(const ReportView& view, const CaseView& one);

}  // namespace reports
