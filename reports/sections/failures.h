// The first thing that somebody who was woken up reads: each failure's one cause, what to do next, and the command that runs it
// again. Cases that failed alike are one item; a bisection is one, told by its answer.
#pragma once

#include <string>
#include <vector>

#include "reports/sections/by_scenario.h"

namespace reports {

// FAIL, HANG, SLOW, CRASH, OOM, XPASS and ERROR.
[[nodiscard]] bool is_failure(harness::Outcome outcome);

// Cases that failed and are no trials of a search, in the order of the report.
[[nodiscard]] Cases failed_cases(const ReportView& view);

// A cause: cases that failed alike, or a search that failed.
struct Failure {
  harness::Outcome outcome = harness::Outcome::fail;
  std::string signature;  // the same in every run that fails in this way
  std::string what;       // Markdown: who failed, and how; one line
  std::string next;       // Markdown: what to do, "" where nobody knows
  std::string command;    // plain text
  Cases cases;
};

// Worst first.
[[nodiscard]] std::vector<Failure> failures(const ReportView& view);

// "next" and the command, as paragraphs of an item of a list.
[[nodiscard]] std::string advice_text(const Failure& failure);

// Worst first, numbered; nothing where nothing failed. Of very many the last ones are only counted.
[[nodiscard]] std::string failures_text(const ReportView& view);

}  // namespace reports
