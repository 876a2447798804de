// The bisections of a run, computed anew from the rows of its cases: which trials belong together, what they found, whether
// that was expected, and which outcomes count for the run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/scenario/bisect.h"
#include "harness/store/store.h"

namespace harness {

struct Bisection {
  std::string label;  // of the base case: "ddp_checkpoint", "ddp_checkpoint[parallel.ranks=2]"
  std::string over;
  std::vector<std::string> candidates;
  std::vector<const CaseRecord*> records;  // of what was judged or skipped, in the order of the run
  std::vector<BisectTrial> trials;         // of the same indices
  BisectProgress progress;
  std::optional<Expectation> expect;
  std::string missed;  // how the answer differs from `expect`, for people; "" where it does not

  // Of the bisection as a whole, where the scenario expects something of it: PASS or FAIL, or why it has no answer.
  [[nodiscard]] std::optional<Outcome> outcome() const;
};

// In the order in which their first trials were planned. They point into `records`.
[[nodiscard]] std::vector<Bisection> bisections_of(std::span<const CaseRecord> records);

// SKIP where a case was skipped, INCONCLUSIVE where it was never judged.
[[nodiscard]] Outcome outcome_of(const CaseRecord& record);

// What the exit code and the decision of a run are made of: the outcome of every case, but of a bisection of which something
// is expected only the one outcome of the whole, and of a diagnosis the case that it explains.
[[nodiscard]] std::vector<Outcome> outcomes_that_count(std::span<const CaseRecord> records);

}  // namespace harness
