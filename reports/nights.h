// Which runs are nights, which night came before one, and what is missing between them. From the store's rows only.
// A night is a run of the verb `nightly`. Nights are compared only with nights of the same shard. What decides which cases a night
// reaches, --scenarios and --budget, is its plan: a short night that somebody starts by day is nobody's previous night but of the
// next short one.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace reports {

[[nodiscard]] bool is_nightly(const harness::RunRecord& run);

struct BrokenNight {  // it has no exit code: killed, or the machine died; or it was interrupted
  harness::RunRecord run;
  std::size_t planned = 0;
  std::size_t unjudged = 0;  // cases without a judgement
};

// What is known of the nights before one.
struct EarlierNights {
  // The newest complete one of the same plan; where there is none, the newest complete one.
  std::optional<harness::RunRecord> previous;
  std::vector<harness::CaseRecord> cases;  // of it
  harness::Pairs planned_otherwise;        // of it: {"budget", "3h, now 8m"}
  std::vector<BrokenNight> broken;         // of the same plan, since then, oldest first
  std::vector<std::string> missing;  // dates since the newest complete one on which none began

  // Whether `previous` had another `option` ("budget").
  [[nodiscard]] bool had_other(const std::string& option) const;
  // "planned otherwise: budget 3h, now 8m", "" where it was planned the same.
  [[nodiscard]] std::string plan_text() const;
};

// Options of the command that decide which cases a night reaches.
inline constexpr std::array kPlanOptions = {"scenarios", "budget"};

// Throws: nsa::Error from the store.
[[nodiscard]] EarlierNights earlier_nights(const harness::Store& store,
                                           const harness::RunRecord& night);

// The days on which no night began, when one began at `before_ms` and the next one at `now_ms`: nights begin a day apart, a few
// hours earlier or later. "2026-11-20" (UTC); a long gap is told as "2026-11-02 to 2026-11-20".
[[nodiscard]] std::vector<std::string> missing_nights(std::int64_t before_ms, std::int64_t now_ms);

// The runs of one night, from a local noon to the next: what ran at 23:50 and what ran at 01:17 belong together.
struct Night {
  std::string name;                      // the date of its morning, "2026-11-22"
  std::vector<harness::RunRecord> runs;  // in the order in which they began
};

// Oldest first. `offset_minutes`: minutes east of UTC at a moment.
[[nodiscard]] std::vector<Night> split_into_nights(
    const std::vector<harness::RunRecord>& runs,
    const std::function<int(std::int64_t unix_ms)>& offset_minutes);

// Of several runs each cell once: its newest judgement. A cell is a case by its content (history_id). Cases that no run judged
// are kept once, as the newest run has them. In the order of the runs.
[[nodiscard]] std::vector<harness::CaseRecord> newest_of_each_cell(
    std::vector<harness::CaseRecord> oldest_run_first);

// Without the runs of which no case is in `kept` any more: later ones did again all that they had planned, so that it does not
// matter how they ended. `all`: the cases before newest_of_each_cell().
[[nodiscard]] std::vector<harness::RunRecord> runs_that_count(
    const std::vector<harness::RunRecord>& runs,
    const std::vector<harness::CaseRecord>& all,
    const std::vector<harness::CaseRecord>& kept);

}  // namespace reports
