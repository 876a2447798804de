// A night against the newest one before it that ended.
#include "reports/markdown.h"
#include "reports/range.h"
#include "reports/sections/list.h"

namespace reports::section {
namespace {

std::string previous_night_body(const ReportView& view) {
  std::string text;
  for (const NightBefore& one : view.nightly) {
    if (!one.earlier.previous) continue;
    const std::string shard = one.run.option("shard");
    if (!shard.empty()) text += "### Shard " + escape(shard) + "\n\n";
    text += "The previous night is run " + escape(one.earlier.previous->name) + ", begun at " +
            time_text(one.earlier.previous->started_ms, 0) + " UTC.\n\n" +
            comparison_text(one.comparison);
  }
  return text;
}

}  // namespace

Section previous_night() {
  return {"Comparison with the previous night", &previous_night_body, false};
}

}  // namespace reports::section
