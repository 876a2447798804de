// Where a case's events go: first the append-only log, in batches, then the hooks. A failure to record never disturbs the
// case: it is kept, what failed is not used again (a record has no holes), and the case ends as `recording_failed`.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/evidence/step_fold.h"
#include "harness/run/record/run_folder.h"
#include "harness/run/runner.h"

namespace harness {

class EventSink {
 public:
  // Throws: nsa::Error if the log cannot be made.
  EventSink(const std::string& folder, const RunnerHooks& hooks);

  // From here on steps that all ranks took alike become one row. REQUIRES: nothing was added yet.
  void fold_steps() { fold_.emplace(); }
  // Without what looks like a secret (nsa/base/secrets.h), whoever wrote it.
  void add(Event event);
  void flush() noexcept;  // what was added goes out
  // What comes now is of other processes, which count their steps anew: no row speaks of steps of both.
  void begin_life() noexcept;
  void tick() noexcept;
  void finish() noexcept;  // nothing comes after

  [[nodiscard]] std::string hash() const { return log_.hash(); }  // of what is in the log
  [[nodiscard]] bool failed() const { return !error_.empty(); }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  bool attempt(const std::function<void()>& action) noexcept;  // false: it threw
  void keep(std::span<const Event> events) noexcept;
  void settle(bool ends) noexcept;

  EventLog log_;
  RunnerHooks hooks_;
  std::vector<Event> batch_;
  std::optional<StepFold> fold_;
  std::vector<Event> open_;    // in the log, and not kept yet
  std::size_t stay_open_ = 0;  // of these, when they were looked at last
  bool log_works_ = true;
  std::string error_;  // the first
};

}  // namespace harness
