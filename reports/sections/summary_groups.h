// What did not fail, in bullets: one for cases of the same outcome and the same reason.
#pragma once

#include <string>

#include "reports/view.h"

namespace reports {

// INCONCLUSIVE with its reasons, however many there are; XFAIL and SKIP, of which very many are only counted. Trials of a
// search are left out: its answer tells them.
[[nodiscard]] std::string open_groups(const ReportView& view);

// What passed: a bullet for a scenario of several cases, and one for those of one case that passed alike.
[[nodiscard]] std::string passed_groups(const ReportView& view);

}  // namespace reports
