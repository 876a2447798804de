// What torch's DistributedDataParallel does for one training step, in C++: parameters verified and broadcast, buckets
// assigned, gradients averaged over the ranks while the backward runs. A step is:
//   before_forward(); ...forward...; before_backward(loss); loss.backward(); after_backward();
// Seam grad_sync: `reduce_bucket` stands for the Reducer's own all-reduce.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/torch.h>

#include "nsa/parallel/communicator.h"
#include "nsa/seams/routes.h"

namespace nsa {

using NamedParameters = std::vector<std::pair<std::string, torch::Tensor>>;

// Starts the reduction of one bucket and returns the future of its averaged buffer.
using ReduceBucket = std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket&)>;

struct DataParallelOptions {
  bool find_unused = false;
  double bucket_mb = 25.0;
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

  void before_forward();
  void before_backward(const torch::Tensor& loss);
  // Throws c10::Error when some gradient never arrived, so that the reduction is not finished.
  void after_backward();

  // The buckets of the next backward.
  [[nodiscard]] std::vector<BucketPlan> buckets() const;

 private:
  NamedParameters parameters_;
  Routes& routes_;
  bool own_reduction_ = true;
  std::int64_t steps_ = 0;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace nsa
