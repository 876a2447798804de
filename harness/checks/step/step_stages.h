// The stages of a training step that step_is_oracle judges, each from what was recorded before it, so that a wrong stage is told
// once and does not make the next one wrong. What could not be judged is missing in the result.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/checks/gradients/ledger.h"
#include "harness/checks/step/step_record.h"
#include "harness/checks/step/step_told.h"
#include "harness/checks/training/overflow.h"

namespace harness::checks {

struct StepJudge {
  explicit StepJudge(const Evidence& evidence)
      : run(evidence),
        ledger(evidence),
        files(open_steps(run, result)),
        overflowed(overflowed_steps(evidence)) {}

  StepRun run;
  Ledger ledger;
  ResultBuilder result;
  StepFiles files;
  StepFindings told;
  std::set<std::int64_t> overflowed;    // steps that the loss scaler left out by right
  std::vector<std::string> judged;      // stages, for people
  std::vector<std::string> not_judged;  // by design, with the reason

  [[nodiscard]] const StepFile* file(int rank, std::int64_t step) const {
    const auto at = files.find({rank, step});
    return at == files.end() ? nullptr : &at->second;
  }
  // `what` of this step holds numbers that are not finite. The check cannot pass then, unless the loss scaler left the step out.
  void not_finite(const std::string& what, const StepFile& file, int layer = -1) {
    const std::string where = what + " of " + process_name(file.rank) + ", step " +
                              std::to_string(file.step) + ", where numbers are not finite";
    not_judged.push_back(where);
    if (overflowed.count(file.step) > 0) return;
    result.missing(where, layer < 0 ? site_of_rank(file.rank) : site_of_layer(file.rank, layer));
  }
  // Did the optimiser get a gradient of this parameter?
  [[nodiscard]] bool has_gradient(int rank, std::int64_t step, const std::string& param) const {
    const Gradient* row = ledger.ranks.find({step, rank, param});
    // Where the record says that one came but not which bytes, it did.
    return row != nullptr && (!row->hash_after.empty() || !has_none(*row));
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
