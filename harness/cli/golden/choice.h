// Judges the blocks that a golden file's author chose, apart from all values: a choice is wrong
// when no scores within the bound on rounding lead to it.
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
  std::vector<std::size_t> wrong_rows;  // by number, (batch, group, query)
};

// `inputs` are the queries and compressed keys that the choice was made from, and how far they may
// be from those that really were used. `model` may be null. REQUIRES: the file has blocks.
[[nodiscard]] Choice judge_choice(const Case& the_case,
                                  const Wanted& oracle,
                                  const Wanted* model,
                                  const oracles::ScoreInputs& inputs);

}  // namespace harness::cli::golden
