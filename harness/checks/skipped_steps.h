// Which steps of a rank changed no parameter though they were asked to, and which of them the loss scaler's search for its
// scale explains. Told by the worker (update ledger, count of skipped steps) and by what became of the stored values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "harness/checks/series.h"

namespace harness::checks {

class SkippedSteps {
 public:
  explicit SkippedSteps(const Evidence& evidence);

  // Did the optimiser leave this step out? REQUIRES: `updates` is the update ledger of this rank and step.
  [[nodiscard]] bool skipped(int rank,
                             std::int64_t step,
                             const std::vector<const Update*>& updates) const;

  // Those that nothing explains, of the steps that `skipped` names of one rank.
  [[nodiscard]] std::set<std::int64_t> unexplained(int rank,
                                                   const std::set<std::int64_t>& skipped) const;

 private:
  // Did the scaler count this step as skipped? Nothing where it tells no count.
  [[nodiscard]] std::optional<bool> counted(int rank, std::int64_t step) const;
  [[nodiscard]] bool overflowed(int rank, std::int64_t step) const;

  const Evidence& evidence_;
  Series counts_;
  Series norms_;
  Series rates_;
};

}  // namespace harness::checks
