// The choice of blocks for one query and group (golden README, "Selection" and "Margins and ties"),
// and whether somebody else's choice can be explained by rounding of the scores. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracles/attention/config.h"

namespace oracles {

// Forced blocks of a query at t: the first init_blocks up to the current one, and the last
// local_blocks ending with the current one.
bool is_forced(const AttentionConfig& config, std::int64_t t, std::int64_t block);
// Blocks that scores may choose: complete at t, and not forced.
bool is_candidate(const AttentionConfig& config, std::int64_t t, std::int64_t block);

struct Selection {
  std::vector<std::int64_t> blocks;  // ascending
  // Lowest score taken among the candidates minus the highest rejected; 0 is an exact tie, infinity
  // where scores decide nothing.
  double margin = 0;
};

// By score descending, then index ascending; a NaN counts as the lowest score.
Selection select_blocks(const AttentionConfig& config,
                        std::int64_t t,
                        std::span<const double> scores_N);

// same: the oracle's blocks. tied: not the same, but the first choice under some scores that differ
// from the oracle's by no more than the bounds. wrong: under none.
enum class Agreement { same, tied, wrong };

struct Comparison {
  Agreement agreement = Agreement::same;
  // Of the pair (rejected, taken) that is hardest to explain: by how much the oracle scores the
  // rejected block higher, and the sum of both bounds. Zeros where there is no such pair.
  double gap = 0;
  double bound = 0;
};

// `taken` as in the golden files: ascending, then -1. Wrong too where that order, the forced blocks
// or the number of candidates taken is another. A NaN explains nothing.
Comparison compare_selection(const AttentionConfig& config,
                             std::int64_t t,
                             std::span<const double> scores_N,
                             std::span<const double> bounds_N,
                             std::span<const std::int64_t> taken);

}  // namespace oracles
