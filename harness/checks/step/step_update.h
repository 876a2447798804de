// One step of one rank on its way through the optimiser: the norm, clipping, AdamW, the copy of masters into the model. Each
// stage is judged from what is recorded before it.
#pragma once

#include <memory>

#include "harness/checks/step/step_stages.h"

namespace harness::checks {

class OptimizerStepJudge {
 public:
  virtual ~OptimizerStepJudge() = default;
  // Are the gradients that the optimiser got?
  [[nodiscard]] virtual bool finite() const = 0;
  // Parameters whose state or gradient is not on record.
  [[nodiscard]] virtual std::size_t lacking() const = 0;
  // n: updates, this one included. skipped: steps left out before.
  virtual void judge_taken(std::int64_t n, std::int64_t skipped, double scale) = 0;
  virtual void judge_left_out() = 0;
  // Numbers judged so far.
  [[nodiscard]] virtual std::int64_t elements() const = 0;
};

// Refers to its arguments.
[[nodiscard]] std::unique_ptr<OptimizerStepJudge> optimizer_step_judge(
    StepJudge& judge, const StepFile& file, const nsa::SafetensorsFile& reduced);

}  // namespace harness::checks
