// What the trials on record have tried, for the sentence of a verdict that passes: types, lengths, widths, batches, how many
// candidates a list was chosen from, and what was not tried. It reads what is on record, and not what was planned.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "harness/checks/kernel/kernel_trials.h"

namespace harness::checks {

class KernelTried {
 public:
  explicit KernelTried(const Scenario& scenario) : scenario_(scenario) {}

  // A trial that was judged.
  void take(const TrialOnRecord& trial);
  // "in 31 trials in float32, lengths 1 to 257, widths 16 and 16, ..."
  [[nodiscard]] std::string tried() const;
  // "not tried: lengths above 257, ..."
  [[nodiscard]] std::string not_tried() const;

 private:
  const Scenario& scenario_;
  std::int64_t trials_ = 0;
  std::set<std::int64_t> lengths_;
  std::set<std::int64_t> batches_;
  std::set<std::pair<std::int64_t, std::int64_t>> widths_;  // d_k and d_v
  std::int64_t in_drawn_rows_ = 0;                          // trials
  std::int64_t fewest_rows_ = 0;                            // of such a trial
  std::int64_t most_candidates_ = 0;
};

}  // namespace harness::checks
