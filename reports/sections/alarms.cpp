// Of a night: what became slower, and what is missing. Nights that never ended or never began, and cells that the previous night
// judged and this one did not. What is missing did not fail, so nothing else of the report would tell it.
#include "reports/sections/alarms.h"

#include <algorithm>
#include <map>
#include <set>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/range.h"
#include "reports/sections/again.h"
#include "reports/sections/list.h"

namespace reports::section {
namespace {

Alarm broken_alarm(const BrokenNight& broken) {
  const bool ended = broken.run.exit_code >= 0;
  const std::string cases = broken.unjudged == 0
                                ? ""
                                : ": " + std::to_string(broken.unjudged) + " of " +
                                      counted(static_cast<std::int64_t>(broken.planned), "case") +
                                      " were not judged";
  return {"NIGHT LOST",
          "The night that began at " + time_text(broken.run.started_ms, 0) + " UTC (run " +
              escape(broken.run.name) + ") " +
              (ended ? "was incomplete when it ended" : "never ended") + cases + ".",
          false,
          broken.run.name};
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

// What another plan left out is not missing: other scenarios have other cells, and another budget reaches others.
bool is_missing(const CellDifference& cell, const EarlierNights& earlier) {
  switch (cell.change) {
    case CellChange::gone: return !earlier.had_other("scenarios");
    case CellChange::not_run: return !earlier.had_other("budget");
    default: return cell.change == CellChange::not_decided;
  }
}

std::vector<Alarm> cell_alarms(const NightBefore& one) {
  std::map<std::string, std::vector<const CellDifference*>> by_reason;
  for (const CellDifference& cell : one.comparison.cells) {
    if (is_missing(cell, one.earlier)) by_reason[why_missing(cell)].push_back(&cell);
  }
  std::vector<Alarm> alarms;
  for (const auto& [why, cells] : by_reason) {
    alarms.push_back({"CELL MISSING",
                      counted(static_cast<std::int64_t>(cells.size()), "case") +
                          (cells.size() == 1 ? " was" : " were") +
                          " judged in the previous night and not in this one: " + escape(why) +
                          " (" + cells_text(cells) + ").",
                      false,
                      why});
  }
  return alarms;
}

// Until a cell has its reference nights nobody waits for a verdict; afterwards its absence is news.
bool went_unjudged(const harness::history::TimeJudgement& judgement) {
  using harness::history::TimeVerdict;
  return judgement.verdict == TimeVerdict::not_comparable ||
         (judgement.verdict == TimeVerdict::unknown && judgement.smallest > 0.0);
}

// What finds the commit, where only a commit can have done it. "" where none can be named.
std::string search_for_commit(const ReportView& view, const TimedCell& cell) {
  const bool by_code = cell.judgement.verdict == harness::history::TimeVerdict::regressed &&
                       cell.judgement.cause == harness::history::Cause::code;
  if (!by_code || cell.same_commit.empty() || cell.same_commit == cell.commit) return "";
  const auto measured = std::find_if(view.cases.begin(), view.cases.end(), [&](const auto& one) {
    return one.record.history_id == cell.history_id;
  });
  if (measured == view.cases.end()) return "";
  const std::string launch = case_again_in_checkout(*measured);
  if (launch.empty()) return "";
  return " Which commit: `" +
         nsa::shell_text(std::vector<std::string>{"./nsa-harness",
                                                  "bisect",
                                                  "--commits",
                                                  cell.same_commit,
                                                  cell.commit,
                                                  "--slower",
                                                  launch}) +
         "`";
}

std::vector<Alarm> time_alarms(const ReportView& view, const Comparison& comparison) {
  std::vector<Alarm> alarms;
  for (const TimedCell& cell : comparison.times) {
    const bool slower = cell.judgement.verdict == harness::history::TimeVerdict::regressed;
    if (!slower && !went_unjudged(cell.judgement)) continue;
    alarms.push_back(
        {slower ? "SLOWER" : "TIME NOT JUDGED",
         escape(cell.label) + ": " + verdict_text(cell.judgement) +
             (cell.judgement.reason.empty() ? "" : ", " + escape(cell.judgement.reason)) + "." +
             search_for_commit(view, cell),
         slower,
         cell.history_id});
  }
  return alarms;
}

std::vector<Alarm> alarms_of_night(const ReportView& view, const NightBefore& one) {
  std::vector<Alarm> alarms = time_alarms(view, one.comparison);
  for (const BrokenNight& broken : one.earlier.broken) alarms.push_back(broken_alarm(broken));
  if (!one.earlier.missing.empty()) {
    const std::string dates = nsa::join(one.earlier.missing);
    alarms.push_back({"NIGHT MISSING", "No night began on " + escape(dates) + ".", false, dates});
  }
  for (Alarm& alarm : cell_alarms(one)) alarms.push_back(std::move(alarm));
  return alarms;
}

std::string alarms_body(const ReportView& view) {
  std::string text;
  for (const Alarm& alarm : alarms_of(view)) {
    text += "- **" + alarm.name + "** " + alarm.text + "\n";
  }
  return text.empty() ? "" : text + "\n";
}

}  // namespace

std::vector<Alarm> alarms_of(const ReportView& view) {
  std::vector<Alarm> all;
  for (const NightBefore& one : view.nightly) {
    for (Alarm& alarm : alarms_of_night(view, one)) {
      if (!one.name.empty()) alarm.text = "Of " + escape(one.name) + ": " + alarm.text;
      all.push_back(std::move(alarm));
    }
  }
  return all;
}

Section alarms() {
  return {"Alarms", &alarms_body, true};
}

}  // namespace reports::section
