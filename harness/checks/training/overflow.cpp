#include "harness/checks/training/overflow.h"

#include <cmath>

#include "harness/checks/series.h"
#include "harness/checks/training/skipped_steps.h"

namespace harness::checks {
namespace {

// The scaler's own count went up in this step.
bool counted_as_skipped(const Series& counts, int rank, std::int64_t step) {
  const Sample* now = counts.find({rank, step});
  const Sample* before = counts.find({rank, step - 1});
  const double already = before == nullptr ? 0.0 : static_cast<double>(before->value);
  return now != nullptr && static_cast<double>(now->value) > already;
}

// It was left out uncounted. Whether that was right is optimizer_sound's to say; no infinity of this step went anywhere.
bool left_out_uncounted(const Evidence& evidence, int rank, std::int64_t step) {
  std::vector<const Update*> updates;
  for (const auto& row : evidence.updates) {
    if (row.process == rank && row.row.step == step) updates.push_back(&row.row);
  }
  return moved_nothing(updates);
}

// The rank ended in this step before anything was decided about it.
bool ended_undecided(const Evidence& evidence, const Series& counts, int rank, std::int64_t step) {
  const WorkerError* error = evidence.error_of(rank);
  return error != nullptr && error->step == step && counts.find({rank, step}) == nullptr;
}

// Infinities in the backward, as they are or already multiplied by zero.
bool is_infinite(const Gradient& gradient) {
  return gradient.state == "inf" || std::isinf(gradient.absmax.value);
}
// Where no gradient was looked at, their norm tells it.
bool is_infinite_norm(const Sample& sample) {
  return sample.metric == "grad_norm" && !std::isfinite(sample.value.value);
}
bool came_from_infinity(const NanBirth& birth) {
  return birth.direction == "backward" && std::isinf(birth.largest_input.value);
}

}  // namespace

std::set<std::int64_t> overflowed_steps(const Evidence& evidence) {
  std::set<std::int64_t> steps;
  if (evidence.the_case.scenario.training.precision != nsa::Precision::fp16) return steps;
  const Series counts = series_of(evidence, "skipped_steps");
  const auto look = [&](const auto& rows, auto overflows) {
    for (const auto& row : rows) {
      const std::int64_t step = row.row.step;
      if (row.process < 0 || steps.count(step) > 0 || !overflows(row.row)) continue;
      const bool left_out = counted_as_skipped(counts, row.process, step) ||
                            left_out_uncounted(evidence, row.process, step) ||
                            ended_undecided(evidence, counts, row.process, step);
      if (left_out) steps.insert(step);
    }
  };
  look(evidence.gradients, is_infinite);
  look(evidence.nan_births, came_from_infinity);
  if (evidence.the_case.scenario.observe < kWatchValues) look(evidence.samples, is_infinite_norm);
  return steps;
}

}  // namespace harness::checks
