// Two sets of cells against each other, a cell being a case by its content, whatever it is called: what became worse or better,
// what is missing, and which exact values differ. Exact values are counts and sizes that the same work gives every time; they are
// compared as numbers, without a tolerance. Times are judged against the earlier nights of each cell (times.h).
#pragma once

#include <string>
#include <vector>

#include "harness/store/store.h"
#include "reports/times.h"

namespace reports {

enum class CellChange {
  newly_failing,    // was good, and fails or could not be run now
  fails_otherwise,  // fails with another outcome or code
  still_failing,    // fails as before
  newly_passing,    // failed or was not decided, and passes now
  not_decided,      // was decided, and is inconclusive or was never judged now
  not_run,          // was judged, and was skipped now
  gone,             // was judged, and is in no list now
  other_content,    // a case of this name is there, but runs something else
  fresh,            // was not there, or did not run, and was judged now
  same              // passed and passes, was known to fail and is; or did not run in both
};

[[nodiscard]] const char* name_of(CellChange change);

struct CellDifference {
  CellChange change = CellChange::same;
  std::string scenario;
  std::string label;
  std::string before;  // the outcome and the first code; "–" where there was none
  std::string now;
  std::string reason;  // of what it is now
};

struct ValueDifference {
  std::string label;
  std::string metric;
  double before = 0.0;
  double now = 0.0;
};

struct Comparison {
  std::vector<CellDifference>
      cells;  // all but those of CellChange::same, by kind, then in their order
  std::size_t same = 0;
  std::size_t in_both = 0;  // cells that were judged on both sides
  std::vector<ValueDifference> values;
  std::size_t values_compared = 0;
  std::size_t cells_with_values = 0;
  std::string not_comparable;       // why exact values were not compared, "" where they were
  std::vector<TimedCell> times;     // judge_times(); compare_cells() leaves it empty
  std::vector<std::string> around;  // what else differs: "torch: 2.10.0, now 2.11.0"

  [[nodiscard]] std::size_t count(CellChange change) const;
  // Nothing became worse or slower, nothing is missing, and no exact value differs.
  [[nodiscard]] bool is_calm() const;
};

// Whether the same work on the same machine gives the same value each time. `has_collectives`: that the case moved bytes between
// ranks.
[[nodiscard]] bool is_exact(const std::string& metric, bool has_collectives);

// Whether a fact of the machine says on what it computes: another processor or card does the same work in other pieces.
[[nodiscard]] bool is_hardware(const std::string& fact);
// Those facts of a run's machine, for a person; equal where the hardware is.
[[nodiscard]] std::string hardware_text(const harness::RunRecord& run);

[[nodiscard]] Comparison compare_cells(const std::vector<harness::CaseRecord>& before,
                                       const std::vector<harness::CaseRecord>& now);

// The cells, their times, and what the runs were tied to. On another machine exact values are not compared.
[[nodiscard]] Comparison compare_runs(const harness::Store& store,
                                      const harness::RunRecord& before_run,
                                      const std::vector<harness::CaseRecord>& before,
                                      const harness::RunRecord& now_run,
                                      const std::vector<harness::CaseRecord>& now);

// "2 newly failing, 1 gone; 3 of 240 exact values differ", or that nothing changed. Markdown.
[[nodiscard]] std::string comparison_line(const Comparison& comparison);
// Tables, without a heading.
[[nodiscard]] std::string comparison_text(const Comparison& comparison);

}  // namespace reports
