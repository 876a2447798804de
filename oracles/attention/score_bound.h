// Block scores (p_grp) of recorded queries and compressed keys, and how far another arithmetic may
// be from them: first-order error analysis with all constants, a bound for every score, not an
// estimate. A choice of blocks that differs from the oracle's is explained by rounding exactly if
// these bounds explain it (compare_selection in selection.h). The derivation is beside the code.
// From x on, through the projections, such a bound would be too wide to judge by: at dim 768 in
// float32 it would explain the exchange of four in ten pairs of blocks, against less than one in a
// thousand. Legend as in attention.h.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/attention/config.h"
#include "oracles/tensor.h"

namespace oracles {

// What the judged computation rounds to. Sums may be taken in any order, with or without fused
// multiply-add; softmax may subtract the maximum or the logarithm of the sum.
struct Arithmetic {
  double stored;     // unit roundoff of every result of an operation that is kept
  double summed;     // unit roundoff inside sums of products and inside softmax
  double underflow;  // smallest normal number of softmax; what is below may be flushed to zero

  static Arithmetic float64();
  static Arithmetic float32();
  static Arithmetic bfloat16();  // stored; sums and softmax in float32
  static Arithmetic float16();   // likewise
};

// Rotated queries and compressed keys as somebody has recorded them.
struct ScoreInputs {
  Tensor q;                        // [B,G,h,R,D]
  Tensor k_cmp;                    // [B,G,C,D]
  std::int64_t length = 0;         // S
  std::vector<std::int64_t> rows;  // query positions of R; not empty
  // How far each number of q and k_cmp may be from what the judged scores were computed with.
  double q_error = 0;
  double k_error = 0;
};

struct BoundedScores {
  Tensor p_grp;  // [B,G,R,N]
  Tensor bound;  // of what `arithmetic` makes of the same q and k_cmp
};

// The scores, and the bound. Throws std::invalid_argument where shapes, rows or values do not fit.
BoundedScores scores_from(const AttentionConfig& config,
                          const ScoreInputs& inputs,
                          const Arithmetic& arithmetic,
                          int threads = 0);

// gamma_n = n u / (1 - n u) bounds the relative error that n roundings accumulate (Higham, Accuracy
// and Stability of Numerical Algorithms, lemma 3.1). Where n u >= 1 nothing is known: a number so
// large that every bound made from it is useless, and finite, so that none becomes a NaN.
double gamma(double n, double u);

// Every unit roundoff 2^-53 larger. All bounds are convex in the unit roundoffs and vanish with
// them (until they are too large to be of use), so the bound for the judged arithmetic and the
// bound for the oracle's own add up to at most the bound for the sum of the roundoffs.
Arithmetic with_own_rounding(Arithmetic arithmetic);

}  // namespace oracles
