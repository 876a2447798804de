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

// Why the decision is what it is: "3 of 300 cases failed".
[[nodiscard]] std::string why(const ReportView& view);

// How many cases have each outcome, the worst first: "1 FAIL, 3 PASS".
[[nodiscard]] std::string tally(const std::vector<CaseView>& cases);
[[nodiscard]] std::string tally(const std::vector<harness::CaseRecord>& cases);

// A number for people: whole ones from a thousand on in full ("2,048"), all others rounded to `digits` significant ones.
[[nodiscard]] std::string shown_number(double value, int digits);

// The beginning of a long text, for a table that is an index; whole characters. Not escaped.
[[nodiscard]] std::string shortened(const std::string& text);

// Label, with the run's name where a report has several runs.
[[nodiscard]] std::string case_name(const ReportView& view, const CaseView& one);

}  // namespace reports
