// What a person sees on stderr while a case runs: on a terminal one line rewritten in place, else a plain line when a rank
// enters another phase. Reads events only; decides nothing.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "harness/core/event.h"

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

  void begin_case(const std::string& label, int position, int count);
  void on_event(const Event& event);
  void on_tick();
  void clear();  // takes the rewritten line away, before anything else is printed

  // The line as it is now: "[1/2] ddp_onestep 12 s | rank 0 backward step 1, 4311 ops | twin ...".
  [[nodiscard]] std::string text() const;

 private:
  struct State {
    std::string phase;
    std::int64_t step = 0;
    std::int64_t moved = 0;
    bool done = false;
  };
  [[nodiscard]] double elapsed() const;

  Style style_;
  std::string title_;
  std::map<int, State> processes_;  // ranks first, then the twin
  std::chrono::steady_clock::time_point begun_;
  std::chrono::steady_clock::time_point printed_;
  bool shown_ = false;
};

}  // namespace harness::cli
