// What an optimiser step decides, as tensors on its device: whether the step is taken, its learning rate, AdamW's count of steps,
// the loss scale. Nothing waits for the host, and every tensor stays where it is, so that a step can be captured as a graph
// (step_graph.h). The decisions are those of the host to the last bit (loss_scaler.h, schedule.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nsa/torch.h"
#include "nsa/train/loss_scaler.h"

namespace nsa {

class DeviceDecisions {
 public:
  struct State {
    std::int64_t taken = 0;                   // optimiser steps that changed something
    std::optional<LossScaler::State> scaler;  // where the loss is scaled
  };

  // `rates`: the learning rates of the taken steps 1, 2, ...; no step beyond them may be made.
  DeviceDecisions(const torch::Device& device,
                  const State& state,
                  const std::vector<double>& rates);

  // Of a step whose gradients have this L2 norm, loss scale taken out: a scalar on the device.
  void decide(const torch::Tensor& norm);

  [[nodiscard]] bool scales() const { return scales_; }
  [[nodiscard]] const torch::Tensor& scale() const { return scale_; }  // float32 []
  // Of the decided step: 1 where it changes nothing, else 0. float32 []
  [[nodiscard]] const torch::Tensor& skips() const { return skips_; }
  [[nodiscard]] const torch::Tensor& rate() const { return rate_; }    // float32 [1]
  [[nodiscard]] const torch::Tensor& steps() const { return steps_; }  // AdamW's count, float32 []

  // Waits for the device. Throws: Error when a step beyond the rates was made.
  [[nodiscard]] State read() const;

 private:
  bool scales_;
  torch::Tensor rates_;  // float32
  torch::Tensor made_;   // steps that were decided, int64 []
  torch::Tensor taken_;  // int64 []
  torch::Tensor steps_;
  torch::Tensor rate_;
  torch::Tensor scale_;
  torch::Tensor good_;     // steps since the scale changed, int64 []
  torch::Tensor skipped_;  // int64 []
  torch::Tensor skips_;
};

}  // namespace nsa
