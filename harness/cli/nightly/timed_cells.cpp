#include "harness/cli/nightly/timed_cells.h"

#include <algorithm>
#include <limits>

#include "harness/cli/output.h"
#include "harness/store/store.h"
#include "reports/times.h"

namespace harness::cli {

bool is_timed(const Scenario& scenario) {
  return scenario.kind == "throughput" && !scenario.fault && scenario.bisect.over.empty();
}

TimedCells::TimedCells(std::string database,
                       const std::vector<Case>& cases,
                       std::vector<std::string> history_ids)
    : database_(std::move(database)), history_ids_(std::move(history_ids)) {
  constexpr auto kMost = static_cast<std::size_t>(history::kMostCells);
  std::vector<std::size_t> timed;
  for (std::size_t point = 0; point < cases.size(); ++point) {
    if (is_timed(cases[point].scenario)) {
      timed.push_back(point);
    } else {
      history_ids_[point].clear();
    }
  }
  std::stable_sort(timed.begin(), timed.end(), [&](std::size_t a, std::size_t b) {
    return cases[a].label() < cases[b].label();
  });
  for (std::size_t i = kMost; i < timed.size(); ++i) history_ids_[timed[i]].clear();
}

bool TimedCells::again(std::size_t point, std::size_t made) const {
  if (history_ids_[point].empty() || made >= 2 * kLaunches) return false;
  return made != kLaunches || looks_different(history_ids_[point]);
}

bool TimedCells::looks_different(const std::string& history_id) const {
  const auto store = Store::open_read_only(database_, &log_line);
  const std::vector<RunRecord> runs = store->runs(std::numeric_limits<std::int64_t>::min(),
                                                  std::numeric_limits<std::int64_t>::max());
  return history::wants_rerun(reports::nights_of_cell(*store, runs, history_id));
}

}  // namespace harness::cli
