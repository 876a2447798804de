// One pass over all sequences of a step, those of every micro-batch and rank in one batch, as a single process without
// accumulation would train on them. Its gradients are what the accumulated and reduced ones must be. The twin computes them
// beside its own, where the check `equals_joint_batch` is asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/kinds/training_parts.h"
#include "nsa/torch.h"

namespace harness {

class JointBatch {
 public:
  // Adds a micro-batch: its tokens, the positions that the loss scores, and where its documents end.
  void add(const TrainingParts& parts,
           std::int64_t step,
           std::int64_t micro,
           int of_rank,
           const torch::Tensor& tokens_BS);
  // The gradients of the mean loss over all scored tokens, written as `joint_gradients` of the step; then it is empty again.
  // Nothing else is recorded, and the parameters' own gradients stay as they are.
  void write(TrainingParts& parts, std::int64_t step);

 private:
  std::vector<torch::Tensor> tokens_;
  nsa::Scored scored_B_;
  nsa::DocumentLengths documents_;
};

}  // namespace harness
