// What a timed step is compared with: causal dense attention by LibTorch, forward and backward, of the step's batch and length. No
// source of this repository is in it, so where it becomes slower too, the machine or LibTorch did.
#pragma once

#include "harness/kinds/step_clock.h"
#include "nsa/base/config.h"

namespace harness {

class DenseControl {
 public:
  DenseControl(const nsa::TrainingConfig& training, const torch::Device& device);

  // Does the work once; milliseconds with the device's work.
  [[nodiscard]] double measure_ms();

 private:
  torch::Tensor qkv_3BHSD_;
  StepClock clock_;
};

}  // namespace harness
