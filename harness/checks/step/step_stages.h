// The stages of a training step that step_is_oracle judges, each from what was recorded before it, so that a wrong stage is told
// once and does not make the next one wrong. What could not be judged is missing in the result.
#pragma once

#include <string>
#include <vector>

#include "harness/checks/gradients/ledger.h"
#include "harness/checks/step/step_record.h"
#include "harness/checks/step/step_told.h"

namespace harness::checks {

struct StepJudge {
  explicit StepJudge(const Evidence& evidence)
      : run(evidence), ledger(evidence), files(open_steps(run, result)) {}

  StepRun run;
  Ledger ledger;
  ResultBuilder result;
  StepFiles files;
  StepFindings told;
  std::vector<std::string> judged;      // stages, for people
  std::vector<std::string> not_judged;  // by design, with the reason

  [[nodiscard]] const StepFile* file(int rank, std::int64_t step) const {
    const auto at = files.find({rank, step});
    return at == files.end() ? nullptr : &at->second;
  }
  // Did the optimiser get a gradient of this parameter?
  [[nodiscard]] bool has_gradient(int rank, std::int64_t step, const std::string& param) const {
    const Gradient* row = ledger.ranks.find({step, rank, param});
    return row != nullptr && !row->hash_after.empty();
  }
};

// The loss scale that a step's loss was really multiplied by: what the backward started from, over the loss.
// Nothing where the two have no such ratio (a NaN, no record).
[[nodiscard]] std::optional<double> attested_scale(const StepJudge& judge, const StepFile& file);

void judge_data(StepJudge& judge);
void judge_initial(StepJudge& judge);
void judge_losses(StepJudge& judge);
void judge_model(StepJudge& judge);
void judge_sums(StepJudge& judge);
void judge_updates(StepJudge& judge);
void judge_reports(StepJudge& judge);
void judge_counts(StepJudge& judge);

}  // namespace harness::checks
