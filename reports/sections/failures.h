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

// Worst first, numbered; nothing where nothing failed. Of very many the last ones are only counted.
[[nodiscard]] std::string failures_text(const ReportView& view);

}  // namespace reports
