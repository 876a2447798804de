// Sums over the ranks that everybody knows beforehand (docs/data.md): after a step one for each gradient bucket, of its size and
// type, through the same process group. What this rank holds of them is recorded. Nothing of the model enters them, so a wrong one
// was made wrong on the way.
#pragma once

#include <vector>

#include "harness/worker/session.h"
#include "nsa/parallel/communicator.h"
#include "nsa/parallel/data_parallel.h"
#include "nsa/torch.h"

namespace harness {

class ExactSums {
 public:
  // `communicator` outlives it.
  ExactSums(Session& session, nsa::Communicator& communicator, const torch::Device& device);

  // After `step`, which had these buckets. Does nothing after steps in which no sum is due, where nobody asks for them, and on a
  // rank without peers.
  void take(std::int64_t step, const std::vector<nsa::BucketPlan>& plans);

 private:
  void take_one(std::int64_t step, const nsa::BucketPlan& plan);

  Session& session_;
  nsa::Communicator& communicator_;
  torch::Device device_;
  bool asked_;
};

}  // namespace harness
