// AdamW (decoupled weight decay, on every parameter), after clipping by the global L2 norm, with the scheduled learning rate.
// Loshchilov and Hutter, arXiv 1711.05101; LibTorch's implementation. Owns the moments, and in bf16 and fp16 the float32
// masters and the loss scale (nsa/train/precision.h); the parameters are the model's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nsa/base/config.h"
#include "nsa/torch.h"
#include "nsa/train/device_decisions.h"
#include "nsa/train/loss_scaler.h"
#include "nsa/train/master_weights.h"

namespace nsa {

// Scales all gradients by min(1, max_norm / (N + 1e-6)), N their L2 norm together, and returns N. Parameters without a
// gradient are passed over.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double max_norm);
// The same by kernels that take all tensors at once, with the norm of each in float32 at least; N stays on the device.
torch::Tensor clip_gradients_together(const std::vector<torch::Tensor>& parameters,
                                      double max_norm);

// Everything that an optimiser carries from step to step. Tensors in the parameters' order, on their device.
struct OptimizerState {
  std::int64_t taken = 0;  // optimiser steps that changed something: the schedule's position
  std::vector<torch::Tensor> exp_avg;     // first moments; zeros before the first step
  std::vector<torch::Tensor> exp_avg_sq;  // second moments
  std::vector<std::int64_t> adam_steps;   // of each parameter; 0 before its first
  std::vector<torch::Tensor> masters;     // empty without masters
  LossScaler::State scaler;
};

class Optimizer {
 public:
  // REQUIRES: parameters of the precision's dtype (a precision without masters takes any).
  // `implementation` of seam `optimizer`: reference, LibTorch's AdamW parameter by parameter; fused, its multi-tensor kernels.
  // Throws: Error on another name.
  Optimizer(std::vector<torch::Tensor> parameters,
            const OptimizerConfig& config,
            Precision precision = Precision::fp32,
            const std::string& implementation = "reference");

  // What backward() is to be called on: the loss times the loss scale. In float32 at least, as next_token_loss() gives it.
  [[nodiscard]] torch::Tensor scaled(const torch::Tensor& loss) const;

  // One optimiser step: clip, update. Returns the gradient norm before clipping, loss scale taken out. With loss scaling a norm
  // that is not finite changes nothing but the scale, and the schedule stays where it is.
  double step();

  // From now on step_on_device() makes the steps, and nothing in them waits for the host: it can be captured (step_graph.h). Only
  // `fused`, and where every parameter took every step so far. REQUIRES: no more than `most_steps` of them are made.
  // Throws: Refused.
  void decide_on_device(std::int64_t most_steps);
  // As step(), to the last bit, but for the norm, which stays on the device. Every parameter has a gradient. Throws: Error.
  torch::Tensor step_on_device();
  // Waits for the device; the host decides again. Throws: Error when more steps were made than was said.
  void decide_on_host();

  // The learning rate of an optimiser step, counted from 1 over the steps that were taken; a seam.
  using Schedule = std::function<double(std::int64_t taken_step)>;
  Schedule& schedule() { return schedule_; }
  // Clips the gradients of `updated` in place and returns their norm before, as clip_gradients() does; a seam. Empty: the
  // implementation's own.
  using Clip = std::function<double(const std::vector<torch::Tensor>& updated)>;
  Clip& clip() { return clip_; }
  // The rate that the last taken step was made with; 0 before it.
  [[nodiscard]] double applied_lr() const { return applied_lr_; }
  [[nodiscard]] std::int64_t taken() const { return taken_; }

  [[nodiscard]] OptimizerState state();
  void load(const OptimizerState& state);

  [[nodiscard]] const char* implementation() const { return fused_ ? "fused" : "reference"; }
  [[nodiscard]] double loss_scale() const { return scaler_ ? scaler_->scale() : 1.0; }
  // Steps that changed nothing because a gradient overflowed.
  [[nodiscard]] std::int64_t skipped() const { return scaler_ ? scaler_->skipped() : 0; }
  // What AdamW updates: the masters, or the parameters themselves.
  [[nodiscard]] const std::vector<torch::Tensor>& updated() const {
    return masters_ ? masters_->tensors() : parameters_;
  }

 private:
  // What the fused kernels are given, of all parameters that have a gradient.
  struct FusedLists {
    std::vector<torch::Tensor> tensors, gradients, exp_avgs, exp_avg_sqs;
    std::vector<torch::optim::AdamWParamState*> moments;
  };

  void update();
  void fused_update();
  void device_update();
  [[nodiscard]] FusedLists fused_lists();

  std::vector<torch::Tensor> parameters_;
  OptimizerConfig config_;
  bool fused_;
  Schedule schedule_;
  Clip clip_;
  std::int64_t taken_ = 0;
  double applied_lr_ = 0.0;
  std::optional<MasterWeights> masters_;
  std::optional<LossScaler> scaler_;
  std::optional<DeviceDecisions> on_device_;
  torch::optim::AdamW adamw_;
};

}  // namespace nsa
