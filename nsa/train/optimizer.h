// AdamW (decoupled weight decay, on every parameter), after clipping by the global L2 norm, with the scheduled learning rate.
// Loshchilov and Hutter, arXiv 1711.05101; LibTorch's implementation. Owns the moments; the parameters are the model's.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/torch.h>

#include "nsa/base/config.h"

namespace nsa {

// Scales all gradients by min(1, max_norm / (N + 1e-6)), N their L2 norm together, and returns N. Parameters without a
// gradient are passed over.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double max_norm);

class Optimizer {
 public:
  Optimizer(std::vector<torch::Tensor> parameters, const OptimizerConfig& config);

  // Optimiser step `step`, counted from 1: clip, update. Returns the gradient norm before clipping.
  double step(std::int64_t step);

 private:
  std::vector<torch::Tensor> parameters_;
  OptimizerConfig config_;
  torch::optim::AdamW adamw_;
};

}  // namespace nsa
