// The update ledger: what an optimiser step did to every stored parameter. An update that is smaller than half a unit in the
// last place of what it is added to is lost, though every number looks right. Made before the step, written after it.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/worker/channel.h"
#include "nsa/parallel/data_parallel.h"
#include "nsa/torch.h"

namespace harness {

class UpdateLedger {
 public:
  // Copies what the step starts from when `enabled`; else it does nothing at all. `updated` are the tensors that the optimiser
  // keeps between steps, the parameters or their float32 masters, in the same order; masters that were not taken yet (step 1)
  // start from the parameters.
  UpdateLedger(const nsa::NamedParameters& parameters,
               const std::vector<torch::Tensor>& updated,
               std::int64_t step,
               bool enabled);

  // One row a parameter. An update is wanted where the gradient is not zero: AdamW then moves the value. `skipped`: the loss
  // scaler says that it left the step out.
  void write(Channel& channel, bool skipped) const;

 private:
  const nsa::NamedParameters& parameters_;
  const std::vector<torch::Tensor>& updated_;
  std::int64_t step_;
  std::vector<torch::Tensor> before_;
};

}  // namespace harness
