#include "harness/cli/nightly/past.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "harness/cli/nightly/plan.h"
#include "harness/cli/nightly/timed_cells.h"
#include "harness/cli/output.h"

namespace harness::cli {
namespace {

bool is_search(const Case& the_case) {
  return !the_case.scenario.bisect.over.empty();
}

double allowed_seconds(const Case& the_case) {
  constexpr double kMostTrials = 16.0;
  const Scenario& scenario = the_case.scenario;
  const double times = is_search(the_case)  ? kMostTrials
                       : is_timed(scenario) ? TimedCells::kMostLaunches
                                            : 1.0;
  return scenario.budget_seconds * times;
}

// Limits are wide: of 31 cases that one CPU night ran, none that was not meant to stand still took a quarter of its limit. By the
// limits themselves a short first night would run next to nothing.
double unmeasured_seconds(const Case& the_case) {
  constexpr double kShare = 0.25;
  return allowed_seconds(the_case) * (stands_still(the_case.scenario) ? 1.0 : kShare);
}

}  // namespace

Past::Past(const std::string& database) {
  std::error_code error;
  if (!std::filesystem::exists(database, error)) return;
  store_ = Store::open_read_only(database, &log_line);
  constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();
  for (const RunRecord& run : store_->runs(std::numeric_limits<std::int64_t>::min(), kEver)) {
    if (!run.option(kAcceptMachine).empty()) accepted_ms_ = run.started_ms;
  }
}

std::string Past::could_in(const std::string& history_id) const {
  if (!store_) return "";
  CaseRecord now;
  now.history_id = history_id;
  now.run_id = std::numeric_limits<std::int64_t>::max();
  const std::vector<Earlier> earlier = store_->history(now, 1);
  const bool known = !earlier.empty() && earlier.front().started_ms >= accepted_ms_;
  return known ? earlier.front().run : "";
}

double Past::taken(const Case& the_case, const std::string& history_id) const {
  if (!store_) return 0.0;
  const Scenario& scenario = the_case.scenario;
  return is_search(the_case) ? store_->seconds_taken(scenario.name, scenario.profile)
                             : store_->seconds_taken(history_id);
}

double Past::expected_seconds(const Case& the_case, const std::string& history_id) const {
  const double took = taken(the_case, history_id);
  return took > 0.0 ? took : unmeasured_seconds(the_case);
}

double Past::most_seconds(const Case& the_case, const std::string& history_id) const {
  constexpr double kReserve = 1.25;
  const double took = taken(the_case, history_id);
  return took > 0.0 ? std::min(allowed_seconds(the_case), kReserve * took)
                    : unmeasured_seconds(the_case);
}

}  // namespace harness::cli
