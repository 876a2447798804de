#include "reports/paired_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "harness/history/noise.h"
#include "nsa/base/text.h"
#include "reports/markdown.h"

namespace reports {
namespace {

using harness::CaseRecord;
using harness::RunRecord;
using harness::history::paired_change;
using harness::history::PairedChange;
using harness::history::TimeVerdict;

// A wider half of an interval around no change says nothing: 10 %.
constexpr double kWidest = 0.1;

struct CellLaunches {
  std::vector<LaunchedCell> before;
  std::vector<LaunchedCell> now;
};

std::string machines_differ(const std::vector<std::pair<TimedRun, TimedRun>>& pairs) {
  for (const auto& [before, now] : pairs) {
    for (const TimedRun* run : {&before, &now}) {
      if (run->hardware != pairs.front().first.hardware) {
        return "the runs are of several machines: " + pairs.front().first.hardware + "; " +
               run->hardware;
      }
    }
  }
  return "";
}

double quartile_ms(const std::vector<LaunchedCell>& launches) {
  std::vector<double> values;
  for (const LaunchedCell& launch : launches) values.push_back(launch.step_ms);
  return harness::history::quantile(values, 0.25);
}

PairedChange change_of(const CellLaunches& launches, double (*log_time)(const LaunchedCell&)) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < launches.now.size(); ++i) {
    differences.push_back(log_time(launches.now[i]) - log_time(launches.before[i]));
  }
  return paired_change(differences);
}

double log_step(const LaunchedCell& launch) {
  return std::log(launch.step_ms);
}
double log_control(const LaunchedCell& launch) {
  return std::log(launch.control_ms);
}
double log_beside(const LaunchedCell& launch) {
  return log_step(launch) - log_control(launch);
}

void judge(PairedCell& cell) {
  const PairedChange& step = cell.step;
  if (!std::isfinite(step.change)) {
    cell.reason = "a time is not a positive number";
  } else if (!std::isfinite(step.low)) {
    cell.reason = counted(static_cast<std::int64_t>(cell.pairs), "pair") + " of launches; " +
                  std::to_string(harness::history::kFewestPairs) + " are needed";
  } else if (step.low <= 0.0 && step.high >= 0.0) {
    const double half = 0.5 * (step.high - step.low);
    cell.verdict = half <= kWidest ? TimeVerdict::same : TimeVerdict::unknown;
    if (half > kWidest) cell.reason = "the launches scatter too much to exclude a change";
  } else if (std::abs(step.change) < harness::history::kFloorShare ||
             std::abs(cell.now_ms - cell.before_ms) < harness::history::kFloorMs) {
    cell.verdict = TimeVerdict::same;
  } else {
    cell.verdict = step.low > 0.0 ? TimeVerdict::regressed : TimeVerdict::improved;
  }
}

PairedCell cell_of(const CellLaunches& launches, const std::string& machines) {
  PairedCell cell;
  const LaunchedCell& before = launches.before.front();
  const LaunchedCell& now = launches.now.front();
  cell.label = now.label;
  cell.pairs = launches.now.size();
  cell.before_ms = quartile_ms(launches.before);
  cell.now_ms = quartile_ms(launches.now);
  cell.step = change_of(launches, log_step);
  cell.control = change_of(launches, log_control);
  cell.beside = change_of(launches, log_beside);
  if (!machines.empty() || before.device != now.device) {
    cell.verdict = TimeVerdict::not_comparable;
    cell.reason =
        !machines.empty() ? machines : "it ran on " + before.device + ", now on " + now.device;
  } else {
    judge(cell);
  }
  return cell;
}

std::string percent(double change) {
  if (!std::isfinite(change)) return "–";
  const double share = 100.0 * std::expm1(change);
  return (share > 0.0 ? "+" : "") + nsa::to_text(share, 3) + " %";
}

// Half of the interval: a change of that size would have had an interval without zero.
std::string smallest_text(const PairedCell& cell) {
  if (!std::isfinite(cell.step.low)) return "–";
  const double half = 0.5 * (cell.step.high - cell.step.low);
  return nsa::to_text(100.0 * std::max(std::expm1(half), harness::history::kFloorShare), 2) + " %";
}

}  // namespace

TimedRun timed_run(const harness::Store& store, const RunRecord& run) {
  TimedRun timed{hardware_text(run), {}};
  for (const CaseRecord& record : store.cases(run.id)) {
    const auto step = record.digest.metric(harness::kStepMs);
    const auto control = record.digest.metric(harness::kControlMs);
    if (!step || !control) continue;
    timed.cells.try_emplace(record.history_id,
                            LaunchedCell{record.label, record.digest.device, *step, *control});
  }
  return timed;
}

std::vector<PairedCell> pair_times(const std::vector<std::pair<TimedRun, TimedRun>>& pairs) {
  std::map<std::string, CellLaunches> all;
  std::vector<std::string> order;
  for (const auto& [before, now] : pairs) {
    for (const auto& [id, launch] : now.cells) {
      const auto at = before.cells.find(id);
      if (at == before.cells.end()) continue;
      CellLaunches& launches = all[id];
      if (launches.now.empty()) order.push_back(id);
      launches.before.push_back(at->second);
      launches.now.push_back(launch);
    }
  }
  const std::string machines = machines_differ(pairs);
  std::vector<PairedCell> cells;
  for (const std::string& id : order) {
    cells.push_back(cell_of(all[id], machines));
    cells.back().history_id = id;
  }
  return cells;
}

std::vector<PairedCell> pair_times(const harness::Store& store, const std::vector<RunPair>& pairs) {
  std::vector<std::pair<TimedRun, TimedRun>> timed;
  for (const auto& [before, now] : pairs) {
    timed.emplace_back(timed_run(store, before), timed_run(store, now));
  }
  return pair_times(timed);
}

std::string interval_text(const PairedChange& change) {
  if (!std::isfinite(change.low)) return percent(change.change);
  return percent(change.change) + " (" + percent(change.low) + " to " + percent(change.high) + ")";
}

bool any_slower(const std::vector<PairedCell>& cells) {
  return std::any_of(cells.begin(), cells.end(), [](const PairedCell& cell) {
    return cell.verdict == TimeVerdict::regressed;
  });
}

std::string paired_text(const std::vector<PairedCell>& cells) {
  if (cells.empty())
    return "No case was measured in both runs of a pair, so no time was judged.\n\n";
  Table table({"cell",
               "pairs",
               "step before",
               "now",
               "change (99 % interval)",
               "control",
               "step / control",
               "verdict",
               "smallest change that is seen",
               "because"});
  for (const PairedCell& cell : cells) {
    table.row({escape(cell.label),
               std::to_string(cell.pairs),
               nsa::to_text(cell.before_ms, 4) + " ms",
               nsa::to_text(cell.now_ms, 4) + " ms",
               interval_text(cell.step),
               interval_text(cell.control),
               interval_text(cell.beside),
               harness::history::name_of(cell.verdict),
               smallest_text(cell),
               cell.reason.empty() ? "–" : escape(cell.reason)});
  }
  return "Times of launches in turn. The control is dense attention by LibTorch itself, so it "
         "tells "
         "what the library and the machine did together; a neighbour on the machine moves "
         "step / control least:\n\n" +
         table.text();
}

}  // namespace reports
