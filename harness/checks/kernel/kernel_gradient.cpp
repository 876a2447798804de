#include "harness/checks/kernel/kernel_gradient.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "harness/checks/ceilings.h"
#include "harness/checks/largest.h"

namespace harness::checks {
namespace {

double largest_gap(const oracles::Tensor& a, const oracles::Tensor& b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.data.size(); ++i) raise_to(most, std::abs(a.data[i] - b.data[i]));
  return most;
}

// A factor that is one moves every rounding along: before it and after it are the same.
bool has_root_of_two(std::int64_t d_k) {
  const auto width = static_cast<std::uint64_t>(d_k);
  return std::has_single_bit(width) && std::countr_zero(width) % 2 == 0;
}

}  // namespace

std::vector<RightBackward> right_backwards(std::int64_t d_k) {
  using Mean = oracles::Backward::Mean;
  std::vector<RightBackward> ways{{true, Mean::of_output},
                                  {false, Mean::of_output},
                                  {true, Mean::of_rounded},
                                  {true, Mean::of_output_beside_rounded}};
  if (!has_root_of_two(d_k)) ways.push_back({true, Mean::of_output_scaled_last});
  return ways;
}

JudgedGradient judge_gradient(const LayerRecord& record,
                              const oracles::Tensor& found,
                              const GradientLimits& limits) {
  const double summed = record.arithmetic.summed;
  const double scale = std::max(oracles::finite_scale(limits.wanted), limits.least_scale);
  JudgedGradient judged;
  judged.allowed = {
      ceiling(limits.terms, record.unit_roundoff, summed), scale, record.arithmetic.stored};
  if (limits.plain == nullptr) {
    const double difference = largest_gap(limits.wanted, found);
    judged.error = {difference == 0.0 ? 0.0 : difference / scale, judged.allowed.relative};
    judged.wrong = !(judged.error.value <= judged.error.limit);
    return judged;
  }
  Measured measured{found, limits.wanted, *limits.plain, record.kept->results, kGradientBudget};
  measured.summed = ceiling(limits.terms, summed) * scale + limits.rounded;
  tell_heads_apart(measured);
  const Spent budget = limits.drawn ? spent(measured, limits.drawn) : spent(measured);
  judged.error = {budget.error, budget.limit};
  judged.where = budget.where;
  judged.allowed.relative = scale > 0.0 ? budget.whole / scale : 0.0;
  judged.wrong = !budget.within();
  return judged;
}

void keep_further(const oracles::Tensor& plain,
                  const oracles::Tensor& right,
                  oracles::Tensor& worst) {
  for (std::size_t i = 0; i < right.data.size(); ++i) {
    const double most = std::abs(worst.data[i] - right.data[i]);
    if (std::abs(plain.data[i] - right.data[i]) > most) worst.data[i] = plain.data[i];
  }
}

}  // namespace harness::checks
