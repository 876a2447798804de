// AdamW and its known mistakes as one formula with other numbers in it, over a block of elements.
// Internal to the oracle; the bounds are derived in judge_adamw.h.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "oracles/training/judge_adamw.h"

namespace oracles {

inline constexpr std::int64_t kUpdateBlock = 1024;  // 21 arrays of it fit an L2 cache
using UpdateLane = std::array<double, kUpdateBlock>;

//   g = clamp(factor gradient + l2 p);  m = m_keep m + m_take g;  v = v_keep v + v_take (v_factor g)^2
//   D = root (sqrt(v + inside) + middle) + outside
//   p = keep p - lr (use_m m + use_g g) / D
struct UpdateTerms {
  double factor = 1;
  double factor_error = 0;
  double l2 = 0;
  double clamp = std::numeric_limits<double>::infinity();
  double m_keep = 0;
  double m_take = 0;
  double v_factor = 1;
  double v_keep = 0;
  double v_take = 0;
  double root = 1;
  double inside = 0;
  double middle = 0;
  double outside = 0;
  double use_m = 1;
  double use_g = 0;
  double keep = 1;
  double lr = 0;
  bool old_moments = false;  // p is made with the moments from before the step
  double u = 0;
  double flushed = 0;
};

UpdateTerms right_terms(const UpdateSettings& settings);

struct UpdateBlock {
  UpdateLane p, m, v, gradient;  // before
  UpdateLane p_after, m_after, v_after;
  bool has_m = false;
  bool has_v = false;
};

struct UpdateResult {
  UpdateLane m, v, p, m_bound, v_bound, p_bound;
};

// The elements of a record from `begin` on. REQUIRES: count <= kUpdateBlock.
void load(const UpdateRecord& record, std::int64_t begin, std::int64_t count, UpdateBlock& block);

void evaluate(const UpdateTerms& terms,
              const UpdateBlock& block,
              std::int64_t count,
              UpdateResult& result);

// All elements of a record.
UpdatePrediction predicted_by(const UpdateRecord& record, const UpdateTerms& terms);

struct LaneMisfit {
  std::int64_t wrong = 0;
  double worst = 0;  // largest difference in units of its bound; infinity for a NaN
};
// Whether a number is further off than its bound; the same comparison everywhere. A NaN is.
inline bool is_wrong(double found, double wanted, double bound) {
  return !(std::abs(found - wanted) / bound <= 1);
}
LaneMisfit compare(const UpdateLane& found,
                   const UpdateLane& wanted,
                   const UpdateLane& bound,
                   std::int64_t count);

}  // namespace oracles
