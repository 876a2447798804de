// The update ledger: what an optimiser step did to every stored parameter. An update that is smaller than half a unit in the
// last place of what it is added to is lost, though every number looks right. Made before the step, written after it.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/torch.h>

#include "harness/worker/channel.h"
#include "nsa/parallel/data_parallel.h"

namespace harness {

class UpdateLedger {
 public:
  // Copies the parameters when `enabled`; else it does nothing at all.
  UpdateLedger(const nsa::NamedParameters& parameters, bool enabled);

  // One row a parameter. An update is wanted where the gradient is not zero: AdamW then moves the value.
  void write(Channel& channel, std::int64_t step) const;

 private:
  const nsa::NamedParameters& parameters_;
  std::vector<torch::Tensor> before_;
};

}  // namespace harness
