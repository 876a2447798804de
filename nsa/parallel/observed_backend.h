// A c10d backend that tells an observer of every collective before it is enqueued and when it has completed, and passes it
// on unchanged. Gloo lets a SUM meet a MAX and aborts the innocent rank on a size mismatch: the harness's own record is the
// only one that can be trusted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace nsa {

struct CollectiveInfo {
  std::int64_t sequence = 0;  // of this group, from 0
  std::string op;             // allreduce, broadcast, allgather, ...
  std::string reduce_op;      // sum, avg, ...; "" where it means nothing
  std::string dtype;
  std::int64_t count = 0;  // elements over all tensors
  std::string group;
};

// Called on the thread that enqueues, and on a thread of the backend's when it completes.
class CollectiveObserver {
 public:
  virtual ~CollectiveObserver() = default;
  virtual void enqueued(const CollectiveInfo& info) = 0;
  virtual void completed(std::int64_t sequence, const std::string& group) = 0;
};

// Every operation of c10d::Backend is observed and passed on. Only what would make another group (split, merge, shrink) is
// refused, as by a backend that has none of it: nobody would observe that group.
class ObservedBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // `observer` outlives the backend; what completes after the backend's end is told to nobody. With `poll`, completion is
  // seen by poll_completed() only: a CUDA future is completed when the kernel is enqueued, which says nothing.
  ObservedBackend(c10::intrusive_ptr<c10d::Backend> inner,
                  std::string group,
                  CollectiveObserver& observer,
                  bool poll);
  ~ObservedBackend() override;
  ObservedBackend(const ObservedBackend&) = delete;
  ObservedBackend& operator=(const ObservedBackend&) = delete;

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
  void setGroupUid(const std::string& uid) override;
  bool supportsCoalescing() const override { return inner_->supportsCoalescing(); }
  bool supportsTimeEstimation() const override { return inner_->supportsTimeEstimation(); }
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override { inner_->waitForPendingWorks(); }
  void enableCollectivesTiming() override { inner_->enableCollectivesTiming(); }
  void eagerConnectSingleDevice(at::Device device) override;
  c10d::ErrorType getError() override { return inner_->getError(); }
  std::shared_ptr<c10::Allocator> getMemAllocator() override { return inner_->getMemAllocator(); }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }

  // What is enqueued between the two is done when the one work that endCoalescing() gives is.
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs,
                    Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs,
                              Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs,
                 Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs,
                  std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs,
                         std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs,
                   Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // Tells the observer of pending operations that have completed since the last call. Thread-safe.
  void poll_completed();

 private:
  // Where a backend's own thread finds the observer, for as long as there is one.
  struct Audience {
    std::mutex mutex;
    CollectiveObserver* observer = nullptr;
    std::string group;

    void completed(std::int64_t sequence);
  };

  std::int64_t announce(const std::string& op,
                        const std::string& reduce_op,
                        const Tensors& tensors);
  WorkPtr watch(std::int64_t sequence, WorkPtr work);

  c10::intrusive_ptr<c10d::Backend> inner_;
  CollectiveObserver& observer_;
  std::shared_ptr<Audience> audience_;
  bool poll_;
  std::mutex mutex_;  // of all below
  std::int64_t next_sequence_ = 0;
  std::map<std::int64_t, WorkPtr> pending_;
  bool coalescing_ = false;
  std::vector<std::int64_t> coalesced_;
};

}  // namespace nsa
