// Times of two programs that were launched in turn, one run a launch: each cell's change with an interval, and its
// control's beside it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/history/judge_nights.h"
#include "harness/history/paired.h"
#include "harness/store/store.h"
#include "reports/comparison.h"

namespace reports {

using RunPair = std::pair<harness::RunRecord, harness::RunRecord>;  // before, now

// What one cell took in one launch, in milliseconds.
struct LaunchedCell {
  std::string label;
  std::string device;
  double step_ms = 0.0;
  double control_ms = 0.0;
};

// The cells of a run that were measured beside a control, by history id.
struct TimedRun {
  std::string hardware;
  std::map<std::string, LaunchedCell> cells;
};
[[nodiscard]] TimedRun timed_run(const harness::Store& store, const harness::RunRecord& run);

struct PairedCell {
  std::string history_id;
  std::string label;
  std::size_t pairs = 0;
  double before_ms = 0.0;  // lower quartile over the launches
  double now_ms = 0.0;
  harness::history::PairedChange step;  // of the step itself
  harness::history::PairedChange
      control;  // of dense attention by LibTorch, measured in the same processes
  harness::history::PairedChange beside;  // of the step divided by its control
  harness::history::TimeVerdict verdict = harness::history::TimeVerdict::unknown;
  std::string reason;  // of unknown and not_comparable, else ""
};

// The cells that every pair measured beside a control. NOT_COMPARABLE where the runs are of several machines, or
// where the cell ran on another device. UNKNOWN with fewer than history::kFewestPairs pairs, and
// where the launches scatter so much that no change can be excluded.
[[nodiscard]] std::vector<PairedCell> pair_times(
    const std::vector<std::pair<TimedRun, TimedRun>>& pairs);
[[nodiscard]] std::vector<PairedCell> pair_times(const harness::Store& store,
                                                 const std::vector<RunPair>& pairs);

// "+5.1 % (+4.2 % to +6 %)", "–" where nothing was measured.
[[nodiscard]] std::string interval_text(const harness::history::PairedChange& change);

[[nodiscard]] bool any_slower(const std::vector<PairedCell>& cells);
// A table, or that nothing was measured. Markdown.
[[nodiscard]] std::string paired_text(const std::vector<PairedCell>& cells);
// comparison_text() without times: paired_text() stands for them.
[[nodiscard]] std::string untimed_text(const Comparison& comparison);

}  // namespace reports
