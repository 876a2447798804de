// A night against the newest one before it that was planned the same and ended.
#include "reports/markdown.h"
#include "reports/range.h"
#include "reports/sections/list.h"

namespace reports::section {
namespace {

// Nights of other plans have other cases, or reached others of the same.
std::string counterparts_text(const NightBefore& one) {
  const std::string plan = one.earlier.plan_text();
  if (plan.empty()) return "";
  const auto cases = [&](std::size_t count) {
    return counted(static_cast<std::int64_t>(count), "case");
  };
  const Comparison& all = one.comparison;
  return " No earlier night was planned like this one, and that one was " + escape(plan) + ". So " +
         cases(all.count(CellChange::fresh)) + " of this night and " +
         cases(all.count(CellChange::gone) + all.count(CellChange::not_run)) +
         " of that one have no counterpart.";
}

std::string previous_night_body(const ReportView& view) {
  std::string text;
  for (const NightBefore& one : view.nightly) {
    if (!one.earlier.previous) continue;
    if (!one.name.empty()) text += "### Of " + escape(one.name) + "\n\n";
    text += "The previous night is run " + escape(one.earlier.previous->name) + ", begun at " +
            time_text(one.earlier.previous->started_ms, 0) + " UTC." + counterparts_text(one) +
            "\n\n" + comparison_text(one.comparison);
  }
  return text;
}

}  // namespace

Section previous_night() {
  return {"Comparison with the previous night", &previous_night_body, false};
}

}  // namespace reports::section
