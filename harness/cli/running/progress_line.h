// What a person sees on stderr while cases run: on a terminal one line rewritten in place, else a plain line when a rank
// enters another phase. Reads events only; decides nothing. Any thread may call it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "harness/evidence/event.h"

namespace harness::cli {

class ProgressLine {
 public:
  enum class Style { none, plain, terminal };

  // `terminal` if stderr is one, else `plain`; `none` when quiet.
  static Style style_for(bool quiet);

  explicit ProgressLine(Style style) : style_(style) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // A case is known by its position, counted from 1 of `count`.
  void begin_case(const std::string& label, int position, int count);
  void on_event(int position, const Event& event);
  // The processes of the case have ended; what they left is judged, which may take minutes.
  void begin_judging(int position);
  // `good`: it did not fail. Failures are counted in the line.
  void end_case(int position, bool good);
  void on_tick();
  // Takes the rewritten line away and does `print`, before the line can come again.
  void aside(const std::function<void()>& print);
  void clear() {
    aside([] {});
  }

  // The line as it is now. One case: "[1/2] ddp_onestep 12 s | rank 0 backward step 1, 4311 ops | twin ...". More at once:
  // "[7/60, 2 failed] 3 at once | branch_isolation[...] 4 s backward | ...", where 7 have begun. Never wider than `width`:
  // long labels are shortened before what the ranks do is.
  [[nodiscard]] std::string text(std::size_t width = 1000) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    std::string phase;
    std::int64_t step = 0;
    std::int64_t moved = 0;
    bool done = false;

    [[nodiscard]] std::string text() const;
  };
  struct Running {
    std::string label;
    Clock::time_point begun;
    Clock::time_point printed;       // a plain line
    std::map<int, State> processes;  // ranks first, then the twin
    bool judged = false;             // now

    // What comes after the label.
    [[nodiscard]] std::string seconds() const;
    [[nodiscard]] std::string in_full() const;
    [[nodiscard]] std::string in_short() const;
  };
  // REQUIRES: mutex_ held, as for all below. A plain line, unless one of the case was just printed.
  void print_plainly(Running& running);
  void show();
  void hide();
  [[nodiscard]] std::string line(std::size_t width) const;
  [[nodiscard]] std::string begun() const;  // "[7/60, 2 failed] "

  Style style_;
  mutable std::mutex mutex_;
  std::map<int, Running> running_;  // by position
  int begun_ = 0;
  int failed_ = 0;
  int count_ = 0;
  bool shown_ = false;
};

}  // namespace harness::cli
