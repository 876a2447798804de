// What the launches of a cell took, night by night, as the gate of harness/history judges it. From the store's rows only.
#pragma once

#include <string>
#include <vector>

#include "harness/history/judge_nights.h"
#include "harness/store/store.h"

namespace reports {

// Of all runs, in their order. Launches of a run: the first half is the night and the second half its rerun, where each half has
// history::kFewestLaunches; else all of them are the night.
[[nodiscard]] std::vector<harness::history::NightTimes> nights_of_cell(
    const harness::Store& store,
    const std::vector<harness::RunRecord>& runs,
    const std::string& history_id);

struct TimedCell {
  std::string label;
  std::string history_id;
  double before_ms = 0.0;  // in the run compared with; NaN where it was not measured there
  harness::history::TimeJudgement judgement;
  // Of the newest earlier run whose times were the same as its reference, and of this one; "" where none is known.
  std::string same_commit;
  std::string commit;
};

// The cells of `now` that were measured beside a control, judged together, each against its own earlier nights.
[[nodiscard]] std::vector<TimedCell> judge_times(const harness::Store& store,
                                                 const harness::RunRecord& before,
                                                 const harness::RunRecord& now,
                                                 const std::vector<harness::CaseRecord>& cases);

// One cell over its nights, newest first, at most `most`; and since when its reference holds. Markdown.
[[nodiscard]] std::string history_text(const std::vector<harness::RunRecord>& runs,
                                       const std::vector<harness::history::TimeJudgement>& judged,
                                       const std::vector<harness::Acceptance>& acceptances,
                                       std::size_t most);

// A table with what each cell became, "" where none was measured. Markdown.
[[nodiscard]] std::string times_text(const std::vector<TimedCell>& cells);
// "2 cells slower", "" where none is.
[[nodiscard]] std::string slower_cells(const std::vector<TimedCell>& cells);

// "REGRESSED +5.1 % (code)"
[[nodiscard]] std::string verdict_text(const harness::history::TimeJudgement& judgement);

}  // namespace reports
