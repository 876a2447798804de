// Of a night: what became slower, and what is missing. Nights that never ended or never began, and cells that the previous night judged and this one did
// not. What is missing did not fail, so nothing else of the report would tell it.
#include <algorithm>
#include <map>
#include <set>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/range.h"
#include "reports/sections/list.h"

namespace reports::section {
namespace {

std::string broken_text(const BrokenNight& broken) {
  const bool ended = broken.run.exit_code >= 0;
  const std::string cases = broken.unjudged == 0
                                ? ""
                                : ": " + std::to_string(broken.unjudged) + " of " +
                                      counted(static_cast<std::int64_t>(broken.planned), "case") +
                                      " were not judged";
  return "**NIGHT LOST** The night that began at " + time_text(broken.run.started_ms, 0) +
         " UTC (run " + escape(broken.run.name) + ") " +
         (ended ? "was incomplete when it ended" : "never ended") + cases + ".";
}

// Names of what is missing, by the reason; of a few hundred cells only the first ones.
std::string cells_text(const std::vector<const CellDifference*>& cells) {
  constexpr std::size_t kMostNames = 8;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(cells.size(), kMostNames); ++i) {
    names.push_back(escape(cells[i]->label));
  }
  const std::string more = cells.size() > kMostNames
                               ? " and " + std::to_string(cells.size() - kMostNames) + " more"
                               : "";
  return nsa::join(names) + more;
}

std::string why_missing(const CellDifference& cell) {
  if (cell.change == CellChange::gone) return "no scenario has it any more";
  return cell.reason;
}

std::vector<std::string> cell_alarms(const Comparison& comparison) {
  std::map<std::string, std::vector<const CellDifference*>> by_reason;
  for (const CellDifference& cell : comparison.cells) {
    const bool missing = cell.change == CellChange::gone || cell.change == CellChange::not_run ||
                         cell.change == CellChange::not_decided;
    if (missing) by_reason[why_missing(cell)].push_back(&cell);
  }
  std::vector<std::string> alarms;
  for (const auto& [why, cells] : by_reason) {
    alarms.push_back("**CELL MISSING** " +
                     counted(static_cast<std::int64_t>(cells.size()), "case") +
                     (cells.size() == 1 ? " was" : " were") +
                     " judged in the previous night and not in this one: " + escape(why) + " (" +
                     cells_text(cells) + ").");
  }
  return alarms;
}

std::vector<std::string> time_alarms(const Comparison& comparison) {
  std::vector<std::string> alarms;
  for (const TimedCell& cell : comparison.times) {
    if (cell.judgement.verdict != harness::history::TimeVerdict::regressed) continue;
    alarms.push_back("**SLOWER** " + escape(cell.label) + ": " + verdict_text(cell.judgement) +
                     (cell.judgement.reason.empty() ? "" : ", " + escape(cell.judgement.reason)) +
                     ".");
  }
  return alarms;
}

std::vector<std::string> alarms_of(const NightBefore& one) {
  std::vector<std::string> alarms = time_alarms(one.comparison);
  for (const BrokenNight& broken : one.earlier.broken) alarms.push_back(broken_text(broken));
  if (!one.earlier.missing.empty()) {
    alarms.push_back("**NIGHT MISSING** No night began on " +
                     escape(nsa::join(one.earlier.missing)) + ".");
  }
  for (const std::string& alarm : cell_alarms(one.comparison)) alarms.push_back(alarm);
  return alarms;
}

std::string alarms_body(const ReportView& view) {
  std::string text;
  for (const NightBefore& one : view.nightly) {
    const std::string shard = one.run.option("shard");
    for (const std::string& alarm : alarms_of(one)) {
      text += "- " + (shard.empty() ? "" : "Shard " + escape(shard) + ": ") + alarm + "\n";
    }
  }
  return text.empty() ? "" : text + "\n";
}

}  // namespace

Section alarms() {
  return {"Alarms", &alarms_body, true};
}

}  // namespace reports::section
