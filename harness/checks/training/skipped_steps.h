// Which steps of a rank changed no parameter though they were asked to, and which of them a loss scaler was entitled to leave
// out: those whose gradients overflowed at its scale, and after which the scale is half of what it was. Nothing is said of how
// many: from 2^16 a scale halves 16 times and is 1, and it doubles only after 2000 steps that were taken. Told by the worker
// (update ledger, gradient ledger, scale, count of skipped steps) and by what became of the stored values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "harness/checks/series.h"

namespace harness::checks {

// By the update ledger of one rank and step: elements that AdamW moves, and none of them has another value.
[[nodiscard]] bool moved_nothing(const std::vector<const Update*>& updates);

class SkippedSteps {
 public:
  explicit SkippedSteps(const Evidence& evidence);

  // Did the optimiser leave this step out? REQUIRES: `updates` is the update ledger of this rank and step.
  [[nodiscard]] bool skipped(int rank,
                             std::int64_t step,
                             const std::vector<const Update*>& updates) const;

  struct Told {
    std::set<std::int64_t> unexplained;
    std::set<std::int64_t> unknown;  // overflowed, but nobody recorded what became of the scale
  };
  // Of the steps that `skipped` names of one rank.
  [[nodiscard]] Told tell(int rank, const std::set<std::int64_t>& skipped) const;

  // Does neither the ledger of the step nor the scaler's count say that it was left out?
  [[nodiscard]] bool uncounted(int rank,
                               std::int64_t step,
                               const std::vector<const Update*>& updates) const;

 private:
  // Did the scaler count this step as skipped? Nothing where it tells no count.
  [[nodiscard]] std::optional<bool> counted(int rank, std::int64_t step) const;
  [[nodiscard]] bool overflowed(int rank, std::int64_t step) const;
  // Is the scale half of what it was? Nothing where it was not recorded.
  [[nodiscard]] std::optional<bool> halved(int rank, std::int64_t step) const;
  // The first step after which the scale is larger though it should not be yet.
  [[nodiscard]] std::int64_t grew_early(int rank, const std::set<std::int64_t>& skipped) const;
  // The scale after a step; before the first one it is known.
  [[nodiscard]] std::optional<double> scale(int rank, std::int64_t step) const;

  const Evidence& evidence_;
  Series counts_;
  Series norms_;
  Series rates_;
  Series scales_;
};

}  // namespace harness::checks
