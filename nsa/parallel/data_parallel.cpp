#include "nsa/parallel/data_parallel.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "nsa/parallel/make_reducer.h"

namespace nsa {
namespace {

// The defaults of torch's DistributedDataParallel. The first bucket is small so that its reduction begins early, and never larger
// than the others.
constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;
constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;

class ReduceBucketHook : public c10d::CppCommHookInterface<ReduceBucket> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    return state_(bucket);
  }
};

// Hands the loss through; its backward, the first of all, queues `callback` for the end of the backward.
struct DelaySink : torch::autograd::Function<DelaySink> {
  using Callback = std::function<void()>;
  struct Kept : torch::CustomClassHolder {
    explicit Kept(Callback of_end) : callback(std::move(of_end)) {}
    Callback callback;
  };
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& loss,
                               const Callback& callback) {
    context->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(callback));
    return loss.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto capsule = context->saved_data["kept"].toCapsule();
    torch::autograd::Engine::get_default_engine().queue_callback(
        static_cast<const Kept*>(capsule.get())->callback);
    return {gradients.front(), torch::Tensor()};
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
                                                    bool rebuilds,
                                                    std::size_t bucket_bytes) {
  const std::vector<std::size_t> limits =
      rebuilds ? std::vector<std::size_t>{static_cast<std::size_t>(
                     std::numeric_limits<std::int64_t>::max())}
               : std::vector<std::size_t>{std::min(kFirstBucketBytes, bucket_bytes), bucket_bytes};
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
    : parameters_(parameters), routes_(routes), options_(options) {
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
  reducer_ = make_reducer<c10d::Reducer>(
      tensors,
      first_buckets(tensors, options.static_graph || !options.find_unused, bucket_bytes),
      communicator.group(),
      std::vector<bool>(tensors.size(), false),
      static_cast<std::int64_t>(bucket_bytes),
      options.find_unused,
      options.gradient_as_bucket_view,
      names,
      static_cast<std::int64_t>(std::min(kFirstBucketBytes, bucket_bytes)));
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  const bool cuda = tensors.front().is_cuda();
  logger_->set_construction_data_and_log(
      "NsaLm",
      cuda ? std::vector<int>{tensors.front().get_device()} : std::vector<int>{},
      cuda ? tensors.front().get_device() : -1,
      /*broadcast_buffers=*/false,
      /*has_sync_bn=*/false,
      options.static_graph);
  if (options.static_graph) reducer_->set_static_graph();
  if (options.reduce_bucket) {
    reducer_->register_comm_hook(std::make_unique<ReduceBucketHook>(options.reduce_bucket));
  }
}

void DataParallel::before_forward(bool last_micro) {
  reduces_ = options_.policy.reduces(last_micro);
  if (reduces_) reducer_->prepare_for_forward();
  if (forwards_ > 0) reducer_->rebuild_buckets();
  ++forwards_;
}

// A static graph learns in its first backward how often each gradient becomes ready, so nothing is reduced meanwhile: all is
// reduced at the end of it, by a callback of the engine's that a node on the loss queues (as distributed.py's sink does).
torch::Tensor DataParallel::delayed(const torch::Tensor& loss) {
  if (!options_.static_graph || delay_queued_ || !options_.policy.queues_delayed(reduces_)) {
    return loss;
  }
  delay_queued_ = true;
  return DelaySink::apply(
      loss, DelaySink::Callback([reducer = reducer_] { reducer->delay_all_reduce(); }));
}

// Gradients that are asked for by name run through no accumulator, so no hook of the Reducer's sees them.
void DataParallel::accumulate_unseen(const torch::Tensor& loss) {
  const auto parameters = tensors_of(parameters_);
  const auto gradients =
      torch::autograd::grad({loss}, parameters, {}, std::nullopt, false, /*allow_unused=*/true);
  const torch::NoGradGuard no_graph;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i].defined()) continue;
    auto& sum = const_cast<torch::Tensor&>(parameters[i]).mutable_grad();
    sum = sum.defined() ? sum + gradients[i] : gradients[i];
  }
}

torch::Tensor DataParallel::before_backward(const torch::Tensor& loss) {
  if (reduces_) reducer_->prepare_for_backward({loss});
  return delayed(loss);
}

void DataParallel::after_backward() {
  if (!reduces_) return;
  reducer_->check_finalized();
  if (!options_.reduce_bucket) routes_.ran("grad_sync", -1, "reference");
}

void DataParallel::backward(const torch::Tensor& loss) {
  const bool would_be_counted = !reduces_ && options_.static_graph && !delay_queued_;
  if (would_be_counted && options_.policy.hides_first_micro_batches()) {
    accumulate_unseen(loss);
    return;
  }
  before_backward(loss).backward();
  after_backward();
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
