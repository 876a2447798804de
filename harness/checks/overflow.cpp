#include "harness/checks/overflow.h"

#include "harness/checks/series.h"

namespace harness::checks {
namespace {

// The scaler's own count went up in this step.
bool counted_as_skipped(const Series& counts, int rank, std::int64_t step) {
  const Sample* now = counts.find({rank, step});
  const Sample* before = counts.find({rank, step - 1});
  const double already = before == nullptr ? 0.0 : static_cast<double>(before->value);
  return now != nullptr && static_cast<double>(now->value) > already;
}

}  // namespace

std::set<std::int64_t> overflowed_steps(const Evidence& evidence) {
  std::set<std::int64_t> steps;
  if (evidence.the_case.scenario.training.precision != nsa::Precision::fp16) return steps;
  const Series counts = series_of(evidence, "skipped_steps");
  for (const auto& row : evidence.gradients) {
    const bool infinite = row.process >= 0 && row.row.state == "inf";
    if (infinite && counted_as_skipped(counts, row.process, row.row.step)) {
      steps.insert(row.row.step);
    }
  }
  return steps;
}

}  // namespace harness::checks
