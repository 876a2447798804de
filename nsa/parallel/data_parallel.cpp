#include "nsa/parallel/data_parallel.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include <torch/csrc/distributed/c10d/comm.hpp>

namespace nsa {
namespace {

// The defaults of torch's DistributedDataParallel.
constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;
constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;

class ReduceBucketHook : public c10d::CppCommHookInterface<ReduceBucket> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    return state_(bucket);
  }
};

std::vector<torch::Tensor> tensors_of(const NamedParameters& parameters) {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(parameters.size());
  for (const auto& [name, tensor] : parameters) {
    tensors.push_back(tensor);
  }
  return tensors;
}

// One bucket for the first step unless unused parameters are searched for: their order of readiness is not known yet, and
// rebuild_buckets() cuts them from the second step on, as distributed.py does.
std::vector<std::vector<std::size_t>> first_buckets(const std::vector<torch::Tensor>& tensors,
                                                    bool find_unused,
                                                    std::size_t bucket_bytes) {
  const std::vector<std::size_t> limits =
      find_unused ? std::vector<std::size_t>{kFirstBucketBytes, bucket_bytes}
                  : std::vector<std::size_t>{
                        static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())};
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      tensors, limits, std::vector<bool>(tensors.size(), false)));
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

}  // namespace

DataParallel::DataParallel(const NamedParameters& parameters,
                           Communicator& communicator,
                           Routes& routes,
                           const DataParallelOptions& options)
    : parameters_(parameters), routes_(routes), own_reduction_(!options.reduce_bucket) {
  const auto tensors = tensors_of(parameters);
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    names[i] = parameters[i].first;
  }
  c10d::verify_params_across_processes(communicator.group(), tensors, std::nullopt);
  {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> values;
    values.reserve(tensors.size());
    for (const auto& tensor : tensors) {
      values.push_back(tensor.detach());
    }
    c10d::broadcast_coalesced(communicator.group(), values, kBroadcastBytes, 0);
  }
  const auto bucket_bytes = static_cast<std::size_t>(options.bucket_mb * 1024 * 1024);
  reducer_ =
      std::make_shared<c10d::Reducer>(tensors,
                                      first_buckets(tensors, options.find_unused, bucket_bytes),
                                      communicator.group(),
                                      std::vector<bool>(tensors.size(), false),
                                      static_cast<std::int64_t>(bucket_bytes),
                                      options.find_unused,
                                      /*gradient_as_bucket_view=*/false,
                                      names,
                                      static_cast<std::int64_t>(kFirstBucketBytes),
                                      /*skip_all_reduce_unused_params=*/false,
                                      /*use_python_reducer=*/false,
                                      std::vector<std::int64_t>{});
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  const bool cuda = tensors.front().is_cuda();
  logger_->set_construction_data_and_log(
      "NsaLm",
      cuda ? std::vector<int>{tensors.front().get_device()} : std::vector<int>{},
      cuda ? tensors.front().get_device() : -1,
      /*broadcast_buffers=*/false,
      /*has_sync_bn=*/false,
      /*static_graph=*/false);
  if (options.reduce_bucket) {
    reducer_->register_comm_hook(std::make_unique<ReduceBucketHook>(options.reduce_bucket));
  }
}

void DataParallel::before_forward() {
  reducer_->prepare_for_forward();
  if (steps_ > 0) {
    reducer_->rebuild_buckets();
  }
  ++steps_;
}

void DataParallel::before_backward(const torch::Tensor& loss) {
  reducer_->prepare_for_backward({loss});
}

void DataParallel::after_backward() {
  reducer_->check_finalized();
  if (own_reduction_) {
    routes_.ran("grad_sync", -1, "reference");
  }
}

std::vector<BucketPlan> DataParallel::buckets() const {
  std::unordered_map<const c10::TensorImpl*, int> position;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    position[parameters_[i].second.unsafeGetTensorImpl()] = static_cast<int>(i);
  }
  std::vector<BucketPlan> plans;
  for (const auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
    BucketPlan plan;
    plan.bucket = static_cast<int>(bucket.getIndex());
    plan.elements = bucket.getBuffer().numel();
    plan.dtype = c10::toString(bucket.getBuffer().scalar_type());
    for (const auto& parameter : bucket.getParameters()) {
      plan.params.push_back(position.at(parameter.unsafeGetTensorImpl()));
    }
    std::sort(plan.params.begin(), plan.params.end());
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace nsa
