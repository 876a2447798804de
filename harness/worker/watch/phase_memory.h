// The most bytes of tensors that were held in each phase of a step, recorded as samples "peak_bytes.PHASE", and over the whole
// step. On a GPU the caching allocator's own figures; asking for them makes nobody wait for the device.
#pragma once

#include <memory>

#include "harness/worker/session.h"
#include "nsa/torch.h"

namespace harness {

class PhaseMemory {
 public:
  // Follows the phases that `session` enters for as long as this lives.
  PhaseMemory(Session& session, const torch::Device& device);

  void begin_step(std::int64_t step);
  // Records the step's phases and "tensor_peak_bytes", the largest of them.
  void end_step();

 private:
  struct Account;
  std::shared_ptr<Account> account_;
};

}  // namespace harness
