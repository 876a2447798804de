// The time of a step on whatever device it runs: a GPU works on after the call that asked it to.
#pragma once

#include <chrono>

#include "nsa/torch.h"

namespace harness {

// Returns when the device has done all it was asked to.
void wait_for(const torch::Device& device);

class StepClock {
 public:
  explicit StepClock(const torch::Device& device) : device_(device) { start(); }

  // Waits for the device, then counts from now on.
  void start();
  // Milliseconds since start(), the device's work included.
  [[nodiscard]] double elapsed_ms() const;

 private:
  torch::Device device_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace harness
