// What ranks train on, in the oracle's words.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/scenario/scenario.h"
#include "oracles/training/data.h"

namespace harness::checks {

[[nodiscard]] oracles::DataConfig data_of(const Scenario& scenario);

// What the loss scores of a micro-batch, by docs/data.md: of each sequence its first positions, of each packed document all but its
// last one. No position sees a later one, so a scored position depends on the tokens of its own piece alone.
// One such piece: positions [begin, begin + length) of sequence `row`.
struct ScoredPiece {
  std::int64_t row = 0;
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

// Throws std::invalid_argument where the configuration is none of a run, or the place none of its places.
[[nodiscard]] std::vector<ScoredPiece> scored_pieces(const oracles::DataConfig& data,
                                                     const oracles::BatchPlace& place);
// Of the longest piece that a rank gets in a step.
[[nodiscard]] std::int64_t longest_scored(const oracles::DataConfig& data,
                                          int rank,
                                          std::int64_t step);

}  // namespace harness::checks
