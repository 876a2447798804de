// Two programs that are launched in turn: does the second one take longer? No clock, no file, no database.
//
// Each pair is one launch of either, begun one after the other, in one order and the next pair in the other (A B, B
// A, A B ...), so that what drifts moves both. Nothing is assumed of the noise but that the launches of a pair could
// be exchanged if the programs were equally fast: then each difference is as probable with the other sign. The
// interval is that of the signed ranks (Wilcoxon, Biometrics Bulletin 1, 1945; Hodges and Lehmann, Ann. Math.
// Statist. 34, 1963).
#pragma once

#include <cstddef>
#include <span>

namespace harness::history {

inline constexpr double kPairedLevel =
    0.01;  // the share of comparisons without a change that see one
inline constexpr std::size_t kFewestPairs = 8;  // with fewer no interval has that level

struct PairedChange {
  double change = 0.0;  // the middle of the differences' pairwise means; NaN of nothing
  double low =
      0.0;  // the change lies between these, wrong with a probability of at most the level; NaN where
  double high = 0.0;  // there are too few pairs
};

// `differences`: of each pair, log(second) - log(first): 0.05 is 5 % slower.
[[nodiscard]] PairedChange paired_change(std::span<const double> differences,
                                         double level = kPairedLevel);

}  // namespace harness::history
