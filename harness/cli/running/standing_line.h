// What a person is told of a command while it stands still or is asked about: who stands where. Nothing is ended for it, and it
// is no verdict. Reads events only. On the runner's thread.
#pragma once

#include <functional>
#include <string>

#include "harness/evidence/evidence.h"

namespace harness::cli {

class StandingLine {
 public:
  using Tell = std::function<void(const std::string& line)>;

  // Not `unasked`: tells only of looks that the user asked for.
  StandingLine(Tell tell, bool unasked) : tell_(std::move(tell)), unasked_(unasked) {}

  void on_event(const Event& event);
  // A few times a second. Tells once of each look that shows something else than the one before, of each that was asked for, and
  // when there is movement again.
  void on_tick();

 private:
  [[nodiscard]] std::string text() const;

  Tell tell_;
  bool unasked_;
  Evidence looked_;  // the newest look: one Observation of each process
  std::int64_t still_ms_ = 0;
  bool asked_ = false;
  bool fresh_ = false;
  bool stands_ = false;  // told, and no movement since
  std::string told_;     // last, of where they stand
  std::string moved_;  // to be told
};

}  // namespace harness::cli
