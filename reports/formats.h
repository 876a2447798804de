// A report in a form for programs, from the same view as the engineers' report.
#pragma once

#include <string>

#include "reports/view.h"

namespace reports {

// One document of JUnit's XML. A case that is not PASS is a failure, an error (also where nothing could be decided), or
// skipped (also where a failure is known).
[[nodiscard]] std::string junit_text(const ReportView& view);

// The body of one rolling issue: what fails, a signature each, since when; what stopped failing. A line that only
// programs see names all signatures, so that nothing is opened twice. At most 60,000 bytes, as much as GitHub takes.
[[nodiscard]] std::string issue_text(const ReportView& view);

// A trace of the cases whose events the request has (ReportRequest::timelines), in the JSON that Perfetto imports: a
// process a case, a thread a rank, a slice a phase, an asynchronous slice a collective, an instant what ended a
// process. Times in microseconds.
[[nodiscard]] std::string perfetto_text(const ReportView& view);

}  // namespace reports
