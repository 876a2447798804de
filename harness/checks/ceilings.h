// The first-principles ceilings, in one place: relative error of a tensor <= 64 * sqrt(n) * u, u the unit roundoff of
// the dtype and n the number of terms of the longest sum on the way to the tensor. 64 covers the handful of chained sums,
// the softmax and its exponentials; sqrt(n) is how independent roundings add up. How small a fault each limit still sees was
// measured: docs/arithmetic.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "nsa/base/config.h"
#include "oracles/attention/stage_table.h"

namespace harness::checks {

inline constexpr double kCeilingFactor = 64.0;

// Entries far below the largest one of their kind are judged against this share of it.
inline constexpr double kSmallestScaleShare = 1e-3;

// Gradients of queries and keys are differences: the softmax's backward subtracts the mean of what it passes on (dS = P (dP - sum
// P dP)). Where keys are alike the terms cancel and only their rounding is left, which is that of terms as large as the values'
// gradients: seen at twice the ceiling with equal keys. Factors of 1 + 3e-5 in float32 and of 1 + 2e-2 in bfloat16 are still seen.
inline constexpr double kSmallestCancellingShare = 1e-2;

// By the name of a weight's gradient ("g.w.W_K_sel.weight"): of queries or keys.
inline bool cancels(const std::string& gradient) {
  const auto has = [&](const char* part) { return gradient.find(part) != std::string::npos; };
  return has("W_Q") || has("W_K_") || has("phi_k");
}

// By the name of a weight's gradient or of the input's.
inline double smallest_scale_share(const std::string& gradient) {
  return cancels(gradient) ? kSmallestCancellingShare : kSmallestScaleShare;
}

// Relative limit for a sum of n terms.
inline double ceiling(std::int64_t terms, double unit_roundoff) {
  return kCeilingFactor * std::sqrt(static_cast<double>(std::max<std::int64_t>(terms, 1))) *
         unit_roundoff;
}

// The same where results are kept in a narrower type than sums are taken in (bfloat16, float16 with sums in float32): a
// result is rounded to what it is kept in once, not once a term. Never above the plain one, which at 768 terms of bfloat16
// would be 7 and could not fail.
inline double ceiling(std::int64_t terms, double stored, double summed) {
  if (stored <= summed) return ceiling(terms, stored);
  return std::min(ceiling(terms, stored), kCeilingFactor * stored + ceiling(terms, summed));
}

// A constant factor explains a tensor when what it leaves is below half of the digits: far above the rounding of the multiplied
// values, far below any factor worth telling.
inline double factor_limit(double unit_roundoff) {
  return std::sqrt(unit_roundoff);
}

// Terms of the longest sum on the way from a layer's input to each tensor.
struct LongestSums {
  std::int64_t projected = 0;  // queries, keys and values
  std::int64_t o_cmp = 0;
  std::int64_t o_sel = 0;
  std::int64_t o_win = 0;
  std::int64_t gate = 0;
  std::int64_t y = 0;
  std::int64_t gradient = 0;  // of a weight or of the input

  LongestSums(const nsa::ModelConfig& config, std::int64_t batch, std::int64_t seq_len) {
    const std::int64_t heads = config.heads_per_group();
    projected = std::max(config.dim, config.d_k);  // W x, then q.k
    o_cmp = std::max({projected, config.l, config.compressed_len(seq_len)});
    o_sel = std::max(projected, std::min(seq_len, config.n_sel * config.l_sel));
    o_win = std::max(projected, std::min(seq_len, config.w));
    gate = std::max({projected, heads, config.gate_width()});
    y = std::max({o_cmp, o_sel, o_win, gate, config.n_heads * config.d_v});
    // A weight's gradient sums over all tokens; a key's over all queries and heads of its group.
    gradient = std::max({y, batch * seq_len, heads * seq_len});
  }

  // Of a stage of the attention.
  [[nodiscard]] std::int64_t of(oracles::Stage stage) const {
    using Sum = oracles::LongestSum;
    switch (oracles::row_of(stage).sum) {
      case Sum::projected: return projected;
      case Sum::cmp: return o_cmp;
      case Sum::sel: return o_sel;
      case Sum::win: return o_win;
      case Sum::gate: return gate;
      case Sum::y: break;
    }
    return y;
  }
};

}  // namespace harness::checks
