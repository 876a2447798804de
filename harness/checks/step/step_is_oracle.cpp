// Is every stage of a training step outside the attention what the float64 oracle makes of what was recorded before it? Tokens,
// initial values, loss, the mean over micro-batches, loss scale, norm and clipping, AdamW, masters, and what is reported of them.
// A stage is judged from the record, never from what the oracle made of the stage before: so two wrong stages are two findings.
#include "harness/checks/list.h"
#include "harness/checks/step/step_stages.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

CheckResult judge_steps(const Evidence& evidence) {
  StepJudge judge(evidence);
  if (judge.files.empty()) return judge.result.finish("");
  judge_data(judge);
  judge_initial(judge);
  judge_model(judge);
  judge_losses(judge);
  judge_sums(judge);
  judge_updates(judge);
  judge_reports(judge);
  judge_counts(judge);
  for (Finding& finding : judge.told.findings()) judge.result.found(std::move(finding));
  std::string text = "equal to the oracle on " + ranks_text(all_ranks(evidence)) + " in " +
                     counted(evidence.the_case.scenario.training.steps, "step") + ": " +
                     nsa::join(judge.judged);
  if (!judge.not_judged.empty()) text += "; not judged here: " + nsa::join(judge.not_judged);
  return judge.result.finish(text);
}

}  // namespace

Check step_is_oracle() {
  return {"step_is_oracle",
          "every stage of a training step outside the attention is what the float64 oracle makes "
          "of its recorded inputs",
          {"DATA.WRONG",
           "INIT.WRONG",
           "LOSS.WRONG",
           "GRAD.SCALE",
           "NUMERIC.FORWARD",
           "NUMERIC.GRADIENT",
           "SCALER.WRONG",
           "CLIP.WRONG",
           "SCHEDULE.LR",
           "OPT.UPDATE_LOST",
           "OPT.UPDATE_WRONG"},
          judge_steps};
}

}  // namespace harness::checks
