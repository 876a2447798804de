#include "harness/checks/training/skipped_steps.h"

#include <algorithm>
#include <cmath>

namespace harness::checks {
namespace {

// Those of torch's GradScaler.
constexpr double kInitialScale = 65536.0;
constexpr std::int64_t kGrowthInterval = 2000;  // steps that were taken

}  // namespace

bool moved_nothing(const std::vector<const Update*>& updates) {
  std::int64_t wanted = 0;
  std::int64_t lost = 0;
  for (const Update* row : updates) {
    wanted += row->wanted;
    lost += row->lost;
  }
  return wanted > 0 && lost == wanted;
}

SkippedSteps::SkippedSteps(const Evidence& evidence)
    : evidence_(evidence),
      counts_(series_of(evidence, "skipped_steps")),
      norms_(series_of(evidence, "grad_norm")),
      rates_(series_of(evidence, "lr")),
      scales_(series_of(evidence, "loss_scale")) {}

bool SkippedSteps::uncounted(int rank,
                             std::int64_t step,
                             const std::vector<const Update*>& updates) const {
  const auto says = [](const Update* row) { return row->skipped; };
  return std::none_of(updates.begin(), updates.end(), says) && !counted(rank, step).value_or(false);
}

bool SkippedSteps::skipped(int rank,
                           std::int64_t step,
                           const std::vector<const Update*>& updates) const {
  if (!uncounted(rank, step, updates)) return true;
  // A rate of zero moves nothing: that is the schedule's matter.
  const Sample* rate = rates_.find({rank, step});
  if (rate != nullptr && rate->value == 0.0) return false;
  return moved_nothing(updates);
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
    if (row.state == "inf" || row.state == "nan" || !std::isfinite(row.absmax.value)) return true;
  }
  const Sample* norm = norms_.find({rank, step});
  return !any && norm != nullptr && !std::isfinite(norm->value);
}

std::optional<double> SkippedSteps::scale(int rank, std::int64_t step) const {
  if (step == 0) return kInitialScale;
  const Sample* row = scales_.find({rank, step});
  return row == nullptr ? std::nullopt : std::make_optional<double>(row->value);
}

std::optional<bool> SkippedSteps::halved(int rank, std::int64_t step) const {
  const auto before = scale(rank, step - 1);
  const auto after = scale(rank, step);
  if (!before || !after) return std::nullopt;
  return *after == *before / 2.0;
}

std::int64_t SkippedSteps::grew_early(int rank, const std::set<std::int64_t>& skipped) const {
  const std::int64_t steps = evidence_.the_case.scenario.training.steps;
  std::int64_t taken = 0;  // since the scale last changed
  for (std::int64_t step = 1; step <= steps; ++step) {
    taken = skipped.count(step) > 0 ? 0 : taken + 1;
    const auto before = scale(rank, step - 1);
    const auto after = scale(rank, step);
    if (!before || !after || !(*after > *before)) continue;
    if (taken < kGrowthInterval) return step;
    taken = 0;
  }
  return steps + 1;
}

SkippedSteps::Told SkippedSteps::tell(int rank, const std::set<std::int64_t>& skipped) const {
  Told told;
  if (skipped.empty()) return told;
  const bool scales = evidence_.the_case.scenario.training.precision == nsa::Precision::fp16;
  const std::int64_t grew = grew_early(rank, skipped);
  for (const std::int64_t step : skipped) {
    const auto half = halved(rank, step);
    if (!scales || !overflowed(rank, step) || step > grew || half == false) {
      told.unexplained.insert(step);
    } else if (!half) {
      told.unknown.insert(step);
    }
  }
  return told;
}

}  // namespace harness::checks
