// AdamW (decoupled weight decay, on every parameter), after clipping by the global L2 norm, with the scheduled learning rate.
// Loshchilov and Hutter, arXiv 1711.05101; LibTorch's implementation. Owns the moments, and in bf16 and fp16 the float32
// masters and the loss scale (nsa/train/precision.h); the parameters are the model's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <torch/torch.h>

#include "nsa/base/config.h"
#include "nsa/train/loss_scaler.h"
#include "nsa/train/master_weights.h"

namespace nsa {

// Scales all gradients by min(1, max_norm / (N + 1e-6)), N their L2 norm together, and returns N. Parameters without a
// gradient are passed over.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double max_norm);

class Optimizer {
 public:
  // REQUIRES: parameters of the precision's dtype (a precision without masters takes any).
  Optimizer(std::vector<torch::Tensor> parameters,
            const OptimizerConfig& config,
            Precision precision = Precision::fp32);

  // What backward() is to be called on: the loss times the loss scale. In float32 at least, as next_token_loss() gives it.
  [[nodiscard]] torch::Tensor scaled(const torch::Tensor& loss) const;

  // Optimiser step `step`, counted from 1: clip, update. Returns the gradient norm before clipping, loss scale taken out. With
  // loss scaling a norm that is not finite changes nothing but the scale.
  double step(std::int64_t step);

  [[nodiscard]] double loss_scale() const { return scaler_ ? scaler_->scale() : 1.0; }
  // Steps that changed nothing because a gradient overflowed.
  [[nodiscard]] std::int64_t skipped() const { return scaler_ ? scaler_->skipped() : 0; }
  // What AdamW updates: the masters, or the parameters themselves.
  [[nodiscard]] const std::vector<torch::Tensor>& updated() const {
    return masters_ ? masters_->tensors() : parameters_;
  }

 private:
  std::vector<torch::Tensor> parameters_;
  OptimizerConfig config_;
  std::optional<MasterWeights> masters_;
  std::optional<LossScaler> scaler_;
  torch::optim::AdamW adamw_;
};

}  // namespace nsa
