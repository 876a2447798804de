// Judges the blocks that a golden file's author chose, apart from all values: a choice is wrong when no scores within the bound
// on rounding lead to it (SPEC 8).
#pragma once

#include <string>
#include <vector>

#include "harness/cli/golden/case.h"
#include "harness/cli/golden/oracle.h"

namespace harness::cli::golden {

struct Choice {
  std::int64_t rows = 0;             // (batch, group, query)
  std::int64_t tied = 0;             // other blocks than the oracle's, explained by the bound
  std::int64_t wrong = 0;            // other blocks, not explained
  std::int64_t wrong_for_model = 0;  // other blocks than the model's, where neither is a tie
  double gap =
      0;  // of the tie that is hardest to explain: how much higher the oracle scores the block left out
  double bound = 0;  // and what rounding may do there
  std::string words;
};

// `recorded_scores`: q and k_cmp of the file are right, and the scores are computed from them; otherwise from x, with a wider
// bound. `model` may be null. REQUIRES: the file has blocks.
[[nodiscard]] Choice judge_choice(const Case& the_case,
                                  const Wanted& oracle,
                                  const Wanted* model,
                                  bool recorded_scores);

}  // namespace harness::cli::golden
