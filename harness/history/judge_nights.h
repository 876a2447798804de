// Is a cell slower than it was? The nights of one cell, judged one after another; no clock, no file, no database.
//
// A night is measured by launches: so many processes that do the same. In each of them a control runs beside the candidate: dense
// attention by LibTorch, which no commit of this repository changes. A stage of a night is
//     x = lower quartile of log(candidate) - lower quartile of log(control)    over its launches,
// so what moves both, such as a clock or a warm room, is not in x. The reference are the nights since somebody accepted one, except
// those that were found different, the first kMostReference of them: it does not follow a slow drift. A night is different only if
// it and its rerun in the same night both are, together less probable than kLevel where nothing changed (noise.h), and the change
// is not too small to matter. tests/history says what that finds and how often it is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace harness::history {

inline constexpr std::size_t kFewestLaunches = 8;  // of a stage
inline constexpr int kFewestReference = 6;         // nights, before one is judged
inline constexpr int kMostReference = 30;
inline constexpr double kLevel =
    0.05 / 365.0;                            // false alarms a night: one in twenty years of a cell
inline constexpr double kMostCells = 12.0;   // that a night measures
inline constexpr double kFloorShare = 0.01;  // a smaller change is not told, however sure
inline constexpr double kFloorMs = 0.02;
inline constexpr double kMostUnseen =
    0.25;  // where less would go unseen, a night is not called the same

struct Stage {  // medians over the steps of each launch, in milliseconds, in the same order
  std::vector<double> step_ms;
  std::vector<double> control_ms;
};

struct NightTimes {
  std::int64_t run = 0;
  Stage first;
  std::optional<Stage> again;  // the rerun
  std::string machine;         // what times depend on: processor, cards
  std::string library;         // driver, LibTorch, NCCL
  bool accepted = false;       // a new reference begins with this night
};

enum class TimeVerdict { same, regressed, improved, unknown, not_comparable };
// What a change is to be looked for in. machine: the control moved too. library: another driver or LibTorch than in the reference.
enum class Cause { none, code, library, machine };

[[nodiscard]] const char* name_of(TimeVerdict verdict);  // "REGRESSED"
[[nodiscard]] const char* name_of(Cause cause);          // "code"; "" of none

struct TimeJudgement {
  std::int64_t run = 0;
  TimeVerdict verdict = TimeVerdict::unknown;
  Cause cause = Cause::none;
  std::string
      reason;  // of unknown and not_comparable; else what was seen beside the verdict, or ""
  double step_ms = 0.0;  // lower quartile over all launches; NaN where none was measured
  double change = 0.0;   // of the candidate beside its control: 0.05 is 5 % slower
  double control_change = 0.0;
  double smallest =
      0.0;  // the smallest change that is found with a probability of 0.95; NaN where none can be
  double p = 1.0;  // both_stages_beyond() of the stage that says less; 1 where one stage sufficed
  bool blind = false;        // unknown, since the reference nights scatter too much
  std::size_t launches = 0;  // of both stages
  int reference_nights = 0;
};

// Of each night, in the order of the nights. Where a time is not a positive number, the night is unknown and says so.
[[nodiscard]] std::vector<TimeJudgement> judge_nights(std::span<const NightTimes> nights);

// Whether the last night should be measured a second time: only with a rerun can it be found different.
[[nodiscard]] bool wants_rerun(std::span<const NightTimes> nights);

// The cells of one night together (discoveries()): where several moved, each needs less evidence than one alone.
void judge_together(std::span<TimeJudgement> cells_of_one_night);

}  // namespace harness::history
