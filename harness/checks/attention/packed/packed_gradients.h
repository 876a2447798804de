// Judges the gradients of a recorded attention layer over packed documents: those of the input token by token, those of the weights
// as the sum over all documents. A branch that passes nothing back in short documents is named.
#pragma once

#include "harness/checks/attention/accuracy/layer_judge.h"
#include "harness/checks/attention/packed/packed_record.h"

namespace harness::checks {

// Adds to `verdict`. REQUIRES: the forward of every document is right.
void judge_gradients_of_documents(const PackedRecord& packed,
                                  const nsa::ModelConfig& model,
                                  LayerJudgement& verdict);

}  // namespace harness::checks
