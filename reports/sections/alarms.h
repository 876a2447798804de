// What of a night is told whatever its cases say: cells that became slower or could not be told, nights and cells that are missing.
// The report has them on its first screen; JUnit, the text and JSON take them from here.
#pragma once

#include <string>
#include <vector>

#include "reports/view.h"

namespace reports::section {

struct Alarm {
  std::string name;       // "SLOWER", "NIGHT LOST"
  std::string text;       // Markdown, one line
  bool fails = false;     // the night is NO-GO for it
  std::string signature;  // the same as long as it is the same alarm
};

[[nodiscard]] std::vector<Alarm> alarms_of(const ReportView& view);

}  // namespace reports::section
