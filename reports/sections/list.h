// The sections of a report in their order. One is a title and a pure function from the view to Markdown; an empty body leaves
// the section out. A new one is one file here and one line in list.cpp.
#pragma once

#include <string>
#include <vector>

#include "reports/view.h"

namespace reports {

struct Section {
  const char* title = "";  // "" prints the body without a heading
  std::string (*body)(const ReportView& view) = nullptr;
  bool in_summary = false;  // also in --format summary
};

[[nodiscard]] const std::vector<Section>& sections();

namespace section {

[[nodiscard]] Section head();
[[nodiscard]] Section alarms();
[[nodiscard]] Section summary();
[[nodiscard]] Section previous_night();
[[nodiscard]] Section changes();
[[nodiscard]] Section configuration();
[[nodiscard]] Section results();
[[nodiscard]] Section selftest();
[[nodiscard]] Section bisection();
[[nodiscard]] Section diagnosis();
[[nodiscard]] Section ledger();
[[nodiscard]] Section findings();
[[nodiscard]] Section last_lines();
[[nodiscard]] Section causes();
[[nodiscard]] Section supersedes();
[[nodiscard]] Section measurements();
[[nodiscard]] Section metrics();
[[nodiscard]] Section throughput();
[[nodiscard]] Section evidence();
[[nodiscard]] Section reproduce();
[[nodiscard]] Section appendix();

}  // namespace section
}  // namespace reports
