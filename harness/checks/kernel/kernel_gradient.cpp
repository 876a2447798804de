#include "harness/checks/kernel/kernel_gradient.h"

#include <algorithm>
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

}  // namespace

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
