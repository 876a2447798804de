// How far block scores (p_grp) computed in another arithmetic can be from the oracle's: first-order
// error analysis with all constants, a bound for every score, not an estimate. A choice of blocks
// that differs from the oracle's is explained by rounding exactly if these bounds explain it
// (compare_selection in selection.h). The derivation is beside the code. Legend as in attention.h.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/attention/config.h"
#include "oracles/tensor.h"
#include "oracles/weights.h"

namespace oracles {

// What the judged computation rounds to. Sums may be taken in any order, with or without fused
// multiply-add; softmax may subtract the maximum or the logarithm of the sum.
struct Arithmetic {
  double stored;     // unit roundoff of every result of an operation that is kept
  double summed;     // unit roundoff inside sums of products and inside softmax
  double angle;      // unit roundoff of the rotary angles
  double underflow;  // smallest normal number of softmax; what is below may be flushed to zero

  static Arithmetic float64();
  static Arithmetic float32();
  static Arithmetic bfloat16();  // stored; sums, softmax and angles in float32
  static Arithmetic float16();   // likewise
};

// |computed p_grp - the oracle's p_grp| <= bound: [B,G,R,N], where everything from x [B,S,E] and
// the weights on is computed in `arithmetic`. `rows` as in AttentionOptions. Throws as attention().
// Wide where projections are long, since it must hold for the worst order of their sums: at dim 768
// in float32 it explains nearly any choice. Where q and k_cmp are on record, judge those as tensors
// and the choice by scores_from.
Tensor score_bound(const AttentionConfig& config,
                   const Weights& weights,
                   const Tensor& x,
                   const Arithmetic& arithmetic,
                   const std::vector<std::int64_t>& rows = {},
                   int threads = 0);

// Rotated queries and compressed keys as somebody has recorded them.
struct ScoreInputs {
  Tensor q;                        // [B,G,h,R,D]
  Tensor k_cmp;                    // [B,G,C,D]
  std::int64_t length = 0;         // S
  std::vector<std::int64_t> rows;  // query positions of R; not empty
};

struct BoundedScores {
  Tensor p_grp;  // [B,G,R,N]
  Tensor bound;  // of what `arithmetic` makes of the same q and k_cmp
};

// The scores of recorded queries and keys, and the bound for the steps after them alone: far
// narrower than score_bound, because a projection's error is not in it.
// Throws std::invalid_argument where shapes, rows or values do not fit.
BoundedScores scores_from(const AttentionConfig& config,
                          const ScoreInputs& inputs,
                          const Arithmetic& arithmetic,
                          int threads = 0);

}  // namespace oracles
