// Gradients of weights that are wrong because they still hold those of the step before.
#pragma once

#include <vector>

#include "harness/checks/step/step_blocks.h"

namespace harness::checks {

// Replaces the departures of weights' gradients by one, where all of them vanish when the gradients of the step before are taken
// off. `judge_again` judges all parts of a model.
void name_kept_gradients(StepJudge& judge,
                         RecordedModel& model,
                         std::vector<PartJudgement>& parts,
                         const JudgeParts& judge_again);

}  // namespace harness::checks
