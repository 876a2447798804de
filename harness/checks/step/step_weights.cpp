#include "harness/checks/step/step_weights.h"

namespace harness::checks {

bool StepWeights::find(StepJudge& judge, const StepFile& step) {
  if (step.is_whole()) {
    file_ = &step.file;
    prefix_ = judge.run.has_masters ? "w." : "p.";
    return true;
  }
  // All ranks begin with the values of rank 0: judge_initial() says where they do not.
  if (step.step != 1) return false;
  initial_ = open_artefact(judge.run.evidence, {0, "initial_values", 1, 0}, judge.result);
  if (!initial_) return false;
  file_ = &*initial_;
  return true;
}

}  // namespace harness::checks
