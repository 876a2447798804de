// How far a tensor that is kept in bfloat16 or float16 may be from the oracle's. The yardstick is the oracle itself in that
// type: the same computation, every kept tensor rounded once (oracles/attention/kept.h). What it is off by is what the type
// costs; an implementation may be off by twice that and four units in the last place, three times in gradients, and half as much
// again on average. Asked of the whole tensor, of every head and of every row: one wrong head drowns in a maximum over all.
//
// The yardstick is one computation of many that are right. Where few numbers carry a part (tied keys, a sum that cancels), its
// error may be small by luck. What is out of its budget is therefore asked again with yardsticks whose roundings are drawn
// (oracles::Kept::draw), and a part may be off by the budget of whichever of them is furthest off, in a tensor of one row
// with two thirds of the factor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracles/numbers.h"
#include "oracles/tensor.h"

namespace harness::checks {

inline constexpr double kForwardBudget = 2.0;  // times what the yardstick is off by
inline constexpr double kGradientBudget = 3.0;

// What one tensor is measured by. Refers to its owner's tensors, all of one shape.
struct Measured {
  const oracles::Tensor& found;
  const oracles::Tensor& wanted;  // by the oracle
  const oracles::Tensor& plain;   // by the oracle in the tensor's type
  oracles::Number number;         // what the tensor is kept in
  double factor = kForwardBudget;
  double summed = 0.0;  // what sums in float32 may be off by; the yardstick takes them in float64
  // The head that a number belongs to, below `heads`. Without: none can be told apart.
  std::int64_t heads = 0;
  std::function<std::int64_t(std::size_t)> head_of = {};
  std::vector<const oracles::Tensor*> drawn = {};  // further yardsticks
};

struct Spent {
  double error = 0.0;  // of what comes nearest to its limit, relative to the largest number there
  double limit = 0.0;
  std::string where;               // "of one row", "on average of one head"
  double whole = 0.0;              // the largest error that any number of the tensor may have
  std::vector<std::size_t> wrong;  // vectors, the last dimension; ascending
  [[nodiscard]] bool within() const { return wrong.empty() && error <= limit; }
};

// Tells the heads of a tensor [B,G,h,S,W] apart, or the groups of one [B,G,S,W]; others have none.
void tell_heads_apart(Measured& tensor);

[[nodiscard]] Spent spent(const Measured& tensor);

inline constexpr int kDraws = 8;
// The yardstick of a draw, 1 to kDraws. Kept by its owner.
using Drawn = std::function<const oracles::Tensor&(int draw)>;
// The same; asks for draws one after the other while the tensor is out of its budget and not far out of it.
[[nodiscard]] Spent spent(Measured tensor, const Drawn& drawn);

}  // namespace harness::checks
