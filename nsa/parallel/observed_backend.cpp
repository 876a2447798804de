#include "nsa/parallel/observed_backend.h"

#include <utility>

namespace nsa {
namespace {

std::string name_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM: return "sum";
    case c10d::ReduceOp::AVG: return "avg";
    case c10d::ReduceOp::PRODUCT: return "product";
    case c10d::ReduceOp::MIN: return "min";
    case c10d::ReduceOp::MAX: return "max";
    case c10d::ReduceOp::BAND: return "band";
    case c10d::ReduceOp::BOR: return "bor";
    case c10d::ReduceOp::BXOR: return "bxor";
    case c10d::ReduceOp::PREMUL_SUM: return "premul_sum";
    default: return "unknown";
  }
}

}  // namespace

ObservedBackend::ObservedBackend(c10::intrusive_ptr<c10d::Backend> inner,
                                 std::string group,
                                 CollectiveObserver& observer,
                                 bool poll)
    : c10d::Backend(inner->getRank(), inner->getSize()),
      inner_(std::move(inner)),
      observer_(observer),
      audience_(std::make_shared<Audience>()),
      poll_(poll) {
  audience_->observer = &observer;
  audience_->group = std::move(group);
}

ObservedBackend::~ObservedBackend() {
  const std::lock_guard lock(audience_->mutex);
  audience_->observer = nullptr;
}

void ObservedBackend::Audience::completed(std::int64_t sequence) {
  const std::lock_guard lock(mutex);
  if (observer != nullptr) observer->completed(sequence, group);
}

std::int64_t ObservedBackend::announce(const std::string& op,
                                       const std::string& reduce_op,
                                       const Tensors& tensors) {
  CollectiveInfo info;
  info.op = op;
  info.reduce_op = reduce_op;
  info.group = audience_->group;
  for (const at::Tensor& tensor : tensors) {
    info.count += tensor.numel();
  }
  if (!tensors.empty()) {
    info.dtype = c10::toString(tensors.front().scalar_type());
  }
  {
    const std::lock_guard lock(mutex_);
    info.sequence = next_sequence_++;
  }
  observer_.enqueued(info);
  return info.sequence;
}

ObservedBackend::WorkPtr ObservedBackend::watch(std::int64_t sequence, WorkPtr work) {
  {
    const std::lock_guard lock(mutex_);
    if (coalescing_) {
      coalesced_.push_back(sequence);
      return work;
    }
    if (work && poll_) pending_.emplace(sequence, work);
  }
  if (!work || poll_) return work;
  // A failed operation has not completed: its exception reaches whoever waits. The backend's thread may come here when this
  // object is gone.
  work->getFuture()->addCallback([audience = audience_, sequence](c10::ivalue::Future& future) {
    if (!future.hasError()) audience->completed(sequence);
  });
  return work;
}

void ObservedBackend::startCoalescing() {
  inner_->startCoalescing();
  const std::lock_guard lock(mutex_);
  coalescing_ = true;
}

ObservedBackend::WorkPtr ObservedBackend::endCoalescing() {
  WorkPtr work = inner_->endCoalescing();
  std::vector<std::int64_t> sequences;
  {
    const std::lock_guard lock(mutex_);
    coalescing_ = false;
    sequences.swap(coalesced_);
  }
  for (const std::int64_t sequence : sequences) (void)watch(sequence, work);
  return work;
}

void ObservedBackend::setGroupUid(const std::string& uid) {
  c10d::Backend::setGroupUid(uid);
  inner_->setGroupUid(uid);
}

void ObservedBackend::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  inner_->registerOnCompletionHook(std::move(hook));
}

void ObservedBackend::eagerConnectSingleDevice(at::Device device) {
  inner_->eagerConnectSingleDevice(device);
}

at::Tensor ObservedBackend::allocateTensor(long size, at::TensorOptions options) {
  return inner_->allocateTensor(size, std::move(options));
}

bool ObservedBackend::supportsTensorAlloc(c10::DeviceIndex device) {
  return inner_->supportsTensorAlloc(device);
}

void ObservedBackend::poll_completed() {
  std::vector<std::int64_t> done;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = pending_.begin(); it != pending_.end();) {
      if (it->second->isCompleted()) {
        done.push_back(it->first);
        it = pending_.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (const std::int64_t sequence : done) {
    audience_->completed(sequence);
  }
}

ObservedBackend::WorkPtr ObservedBackend::broadcast(Tensors& tensors,
                                                    const c10d::BroadcastOptions& options) {
  const auto sequence = announce("broadcast", "", tensors);
  return watch(sequence, inner_->broadcast(tensors, options));
}

ObservedBackend::WorkPtr ObservedBackend::allreduce(Tensors& tensors,
                                                    const c10d::AllreduceOptions& options) {
  const auto sequence = announce("allreduce", name_of(options.reduceOp), tensors);
  return watch(sequence, inner_->allreduce(tensors, options));
}

ObservedBackend::WorkPtr ObservedBackend::allreduce_sparse(Tensors& tensors,
                                                           const c10d::AllreduceOptions& options) {
  const auto sequence = announce("allreduce_sparse", name_of(options.reduceOp), tensors);
  return watch(sequence, inner_->allreduce_sparse(tensors, options));
}

ObservedBackend::WorkPtr ObservedBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const auto sequence = announce("allreduce_coalesced", name_of(options.reduceOp), tensors);
  return watch(sequence, inner_->allreduce_coalesced(tensors, options));
}

ObservedBackend::WorkPtr ObservedBackend::reduce(Tensors& tensors,
                                                 const c10d::ReduceOptions& options) {
  const auto sequence = announce("reduce", name_of(options.reduceOp), tensors);
  return watch(sequence, inner_->reduce(tensors, options));
}

ObservedBackend::WorkPtr ObservedBackend::allgather(std::vector<Tensors>& outputs,
                                                    Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  const auto sequence = announce("allgather", "", inputs);
  return watch(sequence, inner_->allgather(outputs, inputs, options));
}

ObservedBackend::WorkPtr ObservedBackend::_allgather_base(at::Tensor& output,
                                                          at::Tensor& input,
                                                          const c10d::AllgatherOptions& options) {
  const auto sequence = announce("allgather_base", "", {input});
  return watch(sequence, inner_->_allgather_base(output, input, options));
}

ObservedBackend::WorkPtr ObservedBackend::allgather_coalesced(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const auto sequence = announce("allgather_coalesced", "", inputs);
  return watch(sequence, inner_->allgather_coalesced(outputs, inputs, options));
}

ObservedBackend::WorkPtr ObservedBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const auto sequence = announce("allgather_into_tensor_coalesced", "", inputs);
  return watch(sequence, inner_->allgather_into_tensor_coalesced(outputs, inputs, options));
}

ObservedBackend::WorkPtr ObservedBackend::gather(std::vector<Tensors>& outputs,
                                                 Tensors& inputs,
                                                 const c10d::GatherOptions& options) {
  const auto sequence = announce("gather", "", inputs);
  return watch(sequence, inner_->gather(outputs, inputs, options));
}

ObservedBackend::WorkPtr ObservedBackend::scatter(Tensors& outputs,
                                                  std::vector<Tensors>& inputs,
                                                  const c10d::ScatterOptions& options) {
  const auto sequence = announce("scatter", "", outputs);
  return watch(sequence, inner_->scatter(outputs, inputs, options));
}

ObservedBackend::WorkPtr ObservedBackend::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  const auto sequence = announce("reduce_scatter", name_of(options.reduceOp), outputs);
  return watch(sequence, inner_->reduce_scatter(outputs, inputs, options));
}

ObservedBackend::WorkPtr ObservedBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  const auto sequence = announce("reduce_scatter_base", name_of(options.reduceOp), {output});
  return watch(sequence, inner_->_reduce_scatter_base(output, input, options));
}

ObservedBackend::WorkPtr ObservedBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const auto sequence =
      announce("reduce_scatter_tensor_coalesced", name_of(options.reduceOp), outputs);
  return watch(sequence, inner_->reduce_scatter_tensor_coalesced(outputs, inputs, options));
}

ObservedBackend::WorkPtr ObservedBackend::alltoall_base(at::Tensor& output,
                                                        at::Tensor& input,
                                                        std::vector<int64_t>& output_sizes,
                                                        std::vector<int64_t>& input_sizes,
                                                        const c10d::AllToAllOptions& options) {
  const auto sequence = announce("alltoall_base", "", {input});
  return watch(sequence, inner_->alltoall_base(output, input, output_sizes, input_sizes, options));
}

ObservedBackend::WorkPtr ObservedBackend::alltoall(Tensors& outputs,
                                                   Tensors& inputs,
                                                   const c10d::AllToAllOptions& options) {
  const auto sequence = announce("alltoall", "", inputs);
  return watch(sequence, inner_->alltoall(outputs, inputs, options));
}

ObservedBackend::WorkPtr ObservedBackend::send(Tensors& tensors, int destination, int tag) {
  const auto sequence = announce("send", "", tensors);
  return watch(sequence, inner_->send(tensors, destination, tag));
}

ObservedBackend::WorkPtr ObservedBackend::recv(Tensors& tensors, int source, int tag) {
  const auto sequence = announce("recv", "", tensors);
  return watch(sequence, inner_->recv(tensors, source, tag));
}

ObservedBackend::WorkPtr ObservedBackend::recvAnysource(Tensors& tensors, int tag) {
  const auto sequence = announce("recv_any_source", "", tensors);
  return watch(sequence, inner_->recvAnysource(tensors, tag));
}

ObservedBackend::WorkPtr ObservedBackend::barrier(const c10d::BarrierOptions& options) {
  const auto sequence = announce("barrier", "", {});
  return watch(sequence, inner_->barrier(options));
}

void ObservedBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const auto sequence = announce("monitored_barrier", "", {});
  inner_->monitoredBarrier(options, wait_all_ranks);
  audience_->completed(sequence);
}

}  // namespace nsa
