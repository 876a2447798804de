#include "harness/checks/skipped_steps.h"

#include <algorithm>
#include <cmath>

namespace harness::checks {
namespace {

// The scale begins at 2^16 and halves with every overflow: after so many it is 1, and what overflows then is no matter of scale.
constexpr std::int64_t kHalvings = 16;
// Once a step was taken, a halving makes room for gradients twice as large, and the scale doubles only after 2000 good steps:
// a second skip in a row, or more than one step in twenty, is not growth but a scaler that does not let the run learn.
constexpr std::int64_t kStepsASkip = 20;

}  // namespace

SkippedSteps::SkippedSteps(const Evidence& evidence)
    : evidence_(evidence),
      counts_(series_of(evidence, "skipped_steps")),
      norms_(series_of(evidence, "grad_norm")),
      rates_(series_of(evidence, "lr")) {}

bool SkippedSteps::skipped(int rank,
                           std::int64_t step,
                           const std::vector<const Update*>& updates) const {
  const auto says = [](const Update* row) { return row->skipped; };
  if (std::any_of(updates.begin(), updates.end(), says) || counted(rank, step).value_or(false)) {
    return true;
  }
  std::int64_t wanted = 0;
  std::int64_t lost = 0;
  for (const Update* row : updates) {
    wanted += row->wanted;
    lost += row->lost;
  }
  // A rate of zero moves nothing: that is the schedule's matter.
  const Sample* rate = rates_.find({rank, step});
  if (rate != nullptr && rate->value == 0.0) return false;
  return wanted > 0 && lost == wanted;
}

std::optional<bool> SkippedSteps::counted(int rank, std::int64_t step) const {
  const Sample* now = counts_.find({rank, step});
  const Sample* before = counts_.find({rank, step - 1});
  if (now == nullptr || (before == nullptr && step > 1)) return std::nullopt;
  return now->value > (before == nullptr ? 0.0 : static_cast<double>(before->value));
}

// Judged from the gradients themselves where the ledger has them, on any rank: a norm is what the optimiser says of itself.
// A scaler that counts its skips and did not count this one has not seen an overflow.
bool SkippedSteps::overflowed(int rank, std::int64_t step) const {
  if (!counted(rank, step).value_or(true)) return false;
  bool any = false;
  for (const auto& [process, t_ms, row] : evidence_.gradients) {
    if (process < 0 || row.step != step) continue;
    any = true;
    if (row.state == "inf" || row.state == "nan") return true;
  }
  const Sample* norm = norms_.find({rank, step});
  return !any && norm != nullptr && !std::isfinite(norm->value);
}

std::set<std::int64_t> SkippedSteps::unexplained(int rank,
                                                 const std::set<std::int64_t>& skipped) const {
  std::set<std::int64_t> left;
  std::set<std::int64_t> later;
  const bool scales = evidence_.the_case.scenario.training.precision == nsa::Precision::fp16;
  std::int64_t leading = 0;
  for (const std::int64_t step : skipped) {
    const bool leads = step == leading + 1 && leading < kHalvings;
    if (!scales || !overflowed(rank, step)) {
      left.insert(step);
    } else if (leads) {
      leading = step;
    } else {
      later.insert(step);
    }
  }
  const std::int64_t after = evidence_.the_case.scenario.training.steps - leading;
  const auto most = std::max<std::int64_t>(1, after / kStepsASkip);
  const bool in_a_row = std::any_of(
      later.begin(), later.end(), [&](std::int64_t step) { return skipped.count(step - 1) > 0; });
  if (in_a_row || static_cast<std::int64_t>(later.size()) > most) left.merge(later);
  return left;
}

}  // namespace harness::checks
