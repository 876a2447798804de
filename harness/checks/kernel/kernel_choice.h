// Judges one call of a foreign kernel that scores blocks (level score) or chooses them (level select), as the scores
// and the choice of a recorded layer are judged (choice_judge.h): scores by the queries and compressed keys it was
// given, the choice by the scores it was given, ties included.
#pragma once

#include "harness/checks/attention/selection/choice_judge.h"
#include "harness/scenario/scenario.h"
#include "nsa/base/safetensors.h"

namespace harness::checks {

// Throws: nsa::Error where a tensor is missing, or has not the shape that the case demands.
[[nodiscard]] ChoiceJudgement judge_kernel_choice(const Scenario& scenario,
                                                  const nsa::SafetensorsFile& inputs,
                                                  const nsa::SafetensorsFile& outputs);

}  // namespace harness::checks
