// The report as one HTML file: no network, nothing to install, no script needed to read it. What sections say is
// theirs, word by word (blocks.h); drawings, tables of cases and links are of the same view.
#pragma once

#include <string>
#include <vector>

#include "reports/html/parts.h"
#include "reports/view.h"

namespace reports::html {

[[nodiscard]] std::string page(const ReportView& view, const std::vector<Curve>& curves);

}  // namespace reports::html
