// Progress counters of one worker: they tell a slow rank from a stuck one. Incremented from any thread, read by the
// heartbeat; incrementing costs a few nanoseconds and takes no lock. Operators are too many for a look at the clock at each:
// look() sees that some ran. One per process, since operators are counted for all of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "harness/evidence/rows.h"
#include "harness/worker/watch/operator_count.h"

namespace harness {

// Resident set of this process now.
[[nodiscard]] std::int64_t resident_bytes();

class Progress {
 public:
  Progress();

  void hook_fired();
  void collective_enqueued();
  // A wait on peers ends: the time since the last increment is theirs, not a gap of this rank.
  void collective_completed();
  void worked(std::int64_t bytes = 0);  // one tensor hashed, written, initialised

  // A phase begins; its longest gap starts from zero.
  void enter(const std::string& phase, std::int64_t step);
  void at_layer(int layer) { layer_ = layer; }
  void at_micro(std::int64_t micro) { micro_ = micro; }

  // Operators that ran since the last call end a gap. For the heartbeat's thread, several times a second: a gap is told as longer
  // than it was by the time between two calls at most.
  void look();

  [[nodiscard]] Heartbeat heartbeat() const;
  [[nodiscard]] std::string phase() const;
  [[nodiscard]] std::int64_t step() const { return step_; }
  [[nodiscard]] std::int64_t micro() const { return micro_; }  // micro-batch of the step

  // From now on every operator of this process counts, forward and backward. How they are counted: "dispatch", where the dispatcher
  // asks (operator_count.h), or "callback", which costs time at every operator.
  std::string watch_operators();

 private:
  void touch(bool counts_as_gap);

  [[nodiscard]] OperatorCount operators() const;

  std::atomic<bool> watches_operators_{false};
  std::int64_t operators_seen_ = 0;  // by look()
  std::atomic<std::int64_t> hooks_{0};
  std::atomic<std::int64_t> enqueued_{0};
  std::atomic<std::int64_t> completed_{0};
  std::atomic<std::int64_t> work_items_{0};
  std::atomic<std::int64_t> bytes_written_{0};
  std::atomic<std::int64_t> last_ns_{0};
  std::atomic<std::int64_t> longest_gap_ns_{0};
  std::atomic<std::int64_t> step_{0};
  std::atomic<std::int64_t> micro_{0};
  std::atomic<int> layer_{-1};
  mutable std::mutex mutex_;  // of phase_
  std::string phase_ = "init";
};

}  // namespace harness
