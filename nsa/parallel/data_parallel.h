// What torch's DistributedDataParallel does for one training step, in C++: parameters verified and broadcast, buckets
// assigned, gradients averaged over the ranks while the backward runs. A step is:
//   before_forward(); ...forward...; backward(loss);
// With gradient accumulation the micro-batches before the last reduce nothing: their gradients stay local.
// Seam grad_sync: `reduce_bucket` stands for the Reducer's own all-reduce.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "nsa/parallel/communicator.h"
#include "nsa/seams/routes.h"
#include "nsa/torch.h"

namespace nsa {

using NamedParameters = std::vector<std::pair<std::string, torch::Tensor>>;

// Starts the reduction of one bucket and returns the future of its averaged buffer.
using ReduceBucket = std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket&)>;

// When the Reducer is put to work: part of the seam grad_sync.
struct SyncPolicy {
  // Does this micro-batch end in a reduction? What no_sync() is for.
  std::function<bool(bool last_micro)> reduces = [](bool last_micro) { return last_micro; };
  // Is a static graph's first reduction queued in this micro-batch, if it was not yet?
  std::function<bool(bool reducing)> queues_delayed = [](bool reducing) { return reducing; };
  // Are the micro-batches before a static graph's first reduction kept from the Reducer's hooks? These count there how often
  // a gradient becomes ready in a step, and would wait for as many in every later one.
  std::function<bool()> hides_first_micro_batches = [] { return true; };
};

struct DataParallelOptions {
  bool static_graph = false;
  bool find_unused = false;
  bool gradient_as_bucket_view = false;
  double bucket_mb = 25.0;
  SyncPolicy policy;
  ReduceBucket reduce_bucket;  // empty: the Reducer's own all-reduce and division by world
};

struct BucketPlan {
  int bucket = 0;
  std::int64_t elements = 0;
  std::string dtype;
  std::vector<int> params;  // positions in the parameter list, ascending
};

class DataParallel {
 public:
  // Throws c10::Error when the ranks' parameters differ in number, dtype or shape.
  DataParallel(const NamedParameters& parameters,
               Communicator& communicator,
               Routes& routes,
               const DataParallelOptions& options);

  void before_forward(bool last_micro = true);
  // Accumulates the gradients of `loss`, and reduces them in a micro-batch that does.
  // Throws c10::Error when some gradient never arrived, so that the reduction is not finished.
  void backward(const torch::Tensor& loss);
  // Its two ends in a micro-batch that reduces, for who calls backward() himself, on what before_backward() returns.
  torch::Tensor before_backward(const torch::Tensor& loss);
  void after_backward();

  // The buckets of the next backward.
  [[nodiscard]] std::vector<BucketPlan> buckets() const;

 private:
  [[nodiscard]] torch::Tensor delayed(const torch::Tensor& loss);
  void accumulate_unseen(const torch::Tensor& loss);

  NamedParameters parameters_;
  Routes& routes_;
  DataParallelOptions options_;
  bool reduces_ = true;        // this micro-batch
  bool delay_queued_ = false;  // a static graph's first reduction
  std::int64_t forwards_ = 0;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace nsa
