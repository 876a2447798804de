// The summary of a long report: a bullet for cases of the same outcome and the same reason.
#pragma once

#include <string>

#include "reports/view.h"

namespace reports {

// Worst first. Whatever did not pass is there with its reason, however much of it there is; only the bullets of what
// passed, was skipped or is known to fail are limited. REQUIRES: tells_by_scenario(view).
[[nodiscard]] std::string summary_groups(const ReportView& view);

}  // namespace reports
