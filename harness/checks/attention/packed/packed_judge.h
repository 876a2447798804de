// Judges one recorded attention layer over packed documents: each document as a sequence of its own, the gradients of the weights
// as the sum over all of them. A branch whose queries attend across the border of their document is told by its law.
#pragma once

#include "harness/checks/attention/accuracy/layer_judge.h"
#include "harness/checks/attention/packed/packed_record.h"
#include "harness/checks/attention/selection/choice_judge.h"

namespace harness::checks {

// Rows are positions of the sequence.
[[nodiscard]] LayerJudgement judge_layer(const PackedRecord& packed, const nsa::ModelConfig& model);
[[nodiscard]] ChoiceJudgement judge_choice(const PackedRecord& packed);

}  // namespace harness::checks
