// What several cases have alike is told once, under the name of the first of them: the trials of a bisection, a matrix that fails
// in one way.
#pragma once

#include <functional>
#include <string>

#include "reports/sections/by_scenario.h"

namespace reports {

// Of the cases that the report tells in full, in its order: "### TITLE", what `tell` gives, and which other cases of the same
// outcome would have the same text. A case of which `tell` gives "" is left out.
[[nodiscard]] std::string told_once(const ReportView& view,
                                    const std::function<std::string(const CaseView&)>& title,
                                    const std::function<std::string(const CaseView&)>& tell);

}  // namespace reports
