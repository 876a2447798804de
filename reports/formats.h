// A report in a form for programs, from the same view as the engineers' report.
#pragma once

#include <string>

#include "reports/view.h"

namespace reports {

// One document of JUnit's XML. A case that is not PASS is a failure, an error (also where nothing could be decided), or
// skipped (also where a failure is known).
[[nodiscard]] std::string junit_text(const ReportView& view);

// The body of one rolling issue: what fails, a signature each, since when; what stopped failing. A line that only programs see
// names all signatures, so that nothing is opened twice. At most 60,000 bytes, as much as GitHub takes.
[[nodiscard]] std::string issue_text(const ReportView& view);

}  // namespace reports
