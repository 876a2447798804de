#include "reports/times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "nsa/base/text.h"
#include "reports/comparison.h"
#include "reports/markdown.h"
#include "reports/range.h"

namespace reports {
namespace {

using harness::LaunchTimes;
using harness::RunRecord;
using harness::history::NightTimes;
using harness::history::Stage;
using harness::history::TimeJudgement;
using harness::history::TimeVerdict;

std::string library_text(const RunRecord& run) {
  constexpr const char* kLibraries[] = {"driver", "torch", "cuda", "nccl"};
  std::vector<std::string> facts;
  for (const auto& [name, value] : run.provenance.machine) {
    if (std::find(std::begin(kLibraries), std::end(kLibraries), name) != std::end(kLibraries)) {
      facts.push_back(name + " " + value);
    }
  }
  return nsa::join(facts);
}

Stage stage_of(const std::vector<LaunchTimes>& launches, std::size_t from, std::size_t to) {
  Stage stage;
  for (std::size_t i = from; i < to; ++i) {
    stage.step_ms.push_back(launches[i].step_ms);
    stage.control_ms.push_back(launches[i].control_ms);
  }
  return stage;
}

NightTimes night_of(const RunRecord& run, const std::vector<LaunchTimes>& launches) {
  NightTimes night;
  night.run = run.id;
  night.machine = hardware_text(run);
  night.library = library_text(run);
  const std::size_t half = launches.size() / 2;
  const bool twice = half >= harness::history::kFewestLaunches;
  night.first = stage_of(launches, 0, twice ? half : launches.size());
  if (twice) night.again = stage_of(launches, half, launches.size());
  return night;
}

double least_ms(const std::vector<NightTimes>& nights, std::int64_t run) {
  for (const NightTimes& night : nights) {
    if (night.run == run) {
      return harness::history::judge_nights(std::vector<NightTimes>{night}).front().step_ms;
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string share_of(double change) {
  const double percent = 100.0 * std::expm1(change);
  return (percent > 0.0 ? "+" : "") + nsa::to_text(percent, 2) + " %";
}

std::string ms_text(double ms) {
  return std::isfinite(ms) ? nsa::to_text(ms, 4) + " ms" : "–";
}

std::string smallest_text(double smallest) {
  return std::isfinite(smallest) ? nsa::to_text(100.0 * std::expm1(smallest), 2) + " %" : "–";
}

// Of the newest night before the last one that was found the same.
std::string newest_same_commit(const std::vector<RunRecord>& runs,
                               const std::vector<TimeJudgement>& judged) {
  for (auto night = judged.rbegin() + 1; night != judged.rend(); ++night) {
    if (night->verdict != TimeVerdict::same) continue;
    for (const RunRecord& run : runs) {
      if (run.id == night->run) return run.provenance.commit;
    }
  }
  return "";
}

bool is_measured(const harness::CaseRecord& record) {
  return record.digest.metric(harness::kControlMs).has_value();
}

}  // namespace

std::vector<NightTimes> nights_of_cell(const harness::Store& store,
                                       const std::vector<RunRecord>& runs,
                                       const std::string& history_id) {
  std::map<std::int64_t, std::vector<LaunchTimes>> by_run;
  for (const LaunchTimes& launch : store.launches(history_id)) {
    by_run[launch.run_id].push_back(launch);
  }
  std::vector<NightTimes> nights;
  std::vector<harness::Acceptance> open = store.acceptances(history_id);
  bool accepted = false;  // since the night before: numbers of runs are no order, times are
  for (const RunRecord& run : runs) {
    accepted |= std::erase_if(open, [&](const auto& one) { return one.run_id == run.id; }) > 0;
    const auto launches = by_run.find(run.id);
    if (launches == by_run.end()) continue;
    nights.push_back(night_of(run, launches->second));
    nights.back().accepted = std::exchange(accepted, false);
  }
  return nights;
}

std::vector<TimedCell> judge_times(const harness::Store& store,
                                   const RunRecord& before,
                                   const RunRecord& now,
                                   const std::vector<harness::CaseRecord>& cases) {
  std::vector<RunRecord> runs;
  std::vector<TimedCell> cells;
  std::set<std::string> seen;
  for (const harness::CaseRecord& record : cases) {
    if (record.run_id != now.id || !is_measured(record)) continue;
    if (!seen.insert(record.history_id).second) continue;
    if (runs.empty()) {
      runs = store.runs(std::numeric_limits<std::int64_t>::min(),
                        std::numeric_limits<std::int64_t>::max());
      const auto later = std::find_if(
          runs.rbegin(), runs.rend(), [&](const RunRecord& run) { return run.id == now.id; });
      runs.erase(later.base(), runs.end());
    }
    const std::vector<NightTimes> nights = nights_of_cell(store, runs, record.history_id);
    if (nights.empty() || nights.back().run != now.id) continue;
    const auto judged = harness::history::judge_nights(nights);
    cells.push_back({record.label,
                     record.history_id,
                     least_ms(nights, before.id),
                     judged.back(),
                     newest_same_commit(runs, judged),
                     now.provenance.commit});
  }
  std::vector<TimeJudgement> together;
  for (const TimedCell& cell : cells) together.push_back(cell.judgement);
  harness::history::judge_together(together);
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i].judgement = together[i];
  return cells;
}

std::string verdict_text(const TimeJudgement& judgement) {
  std::string text = name_of(judgement.verdict);
  const bool changed =
      judgement.verdict == TimeVerdict::regressed || judgement.verdict == TimeVerdict::improved;
  if (changed) text += " " + share_of(judgement.change);
  const std::string cause = name_of(judgement.cause);
  return text + (cause.empty() ? "" : " (" + cause + ")");
}

std::string slower_cells(const std::vector<TimedCell>& cells) {
  const auto slower = std::count_if(cells.begin(), cells.end(), [](const TimedCell& cell) {
    return cell.judgement.verdict == TimeVerdict::regressed;
  });
  return slower == 0 ? "" : counted(slower, "cell") + " slower";
}

std::string times_text(const std::vector<TimedCell>& cells) {
  if (cells.empty()) return "";
  Table table({"cell", "step before", "now", "verdict", "smallest change that is seen", "because"});
  for (const TimedCell& cell : cells) {
    table.row({escape(cell.label),
               ms_text(cell.before_ms),
               ms_text(cell.judgement.step_ms),
               verdict_text(cell.judgement),
               smallest_text(cell.judgement.smallest),
               cell.judgement.reason.empty() ? "–" : escape(cell.judgement.reason)});
  }
  return "Times, against the reference nights of each cell:\n\n" + table.text();
}

std::string history_text(const std::vector<RunRecord>& runs,
                         const std::vector<TimeJudgement>& judged,
                         const std::vector<harness::Acceptance>& acceptances,
                         std::size_t most) {
  Table table({"run", "begun (UTC)", "commit", "step", "verdict", "smallest", "because"});
  for (std::size_t i = 0; i < std::min(most, judged.size()); ++i) {
    const TimeJudgement& one = judged[judged.size() - 1 - i];
    const auto run = std::find_if(
        runs.begin(), runs.end(), [&](const RunRecord& known) { return known.id == one.run; });
    table.row({escape(run->name),
               time_text(run->started_ms, 0),
               escape(run->provenance.commit.substr(0, 10)),
               ms_text(one.step_ms),
               verdict_text(one),
               smallest_text(one.smallest),
               one.reason.empty() ? "–" : escape(one.reason)});
  }
  std::string text = table.text();
  for (const harness::Acceptance& one : acceptances) {
    text += "- accepted from run " + std::to_string(one.run_id) + " on, at " +
            time_text(one.accepted_ms, 0) + " UTC: " + escape(one.reason) + "\n";
  }
  return text;
}

}  // namespace reports
