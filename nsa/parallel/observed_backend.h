// A c10d backend that tells an observer of every collective before it is enqueued and when it has completed, and passes it
// on unchanged. Gloo lets a SUM meet a MAX and aborts the innocent rank on a size mismatch: the harness's own record is the
// only one that can be trusted.
#pragma once

#include <cstdint>
#include <map>
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

class ObservedBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // `observer` outlives the backend. With `poll`, completion is seen by poll_completed() only: a CUDA future is completed
  // when the kernel is enqueued, which says nothing.
  ObservedBackend(c10::intrusive_ptr<c10d::Backend> inner,
                  std::string group,
                  CollectiveObserver& observer,
                  bool poll);

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
  bool supportsCoalescing() const override { return false; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs,
                    Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
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
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  // Tells the observer of pending operations that have completed since the last call. Thread-safe.
  void poll_completed();

 private:
  std::int64_t announce(const std::string& op,
                        const std::string& reduce_op,
                        const Tensors& tensors);
  WorkPtr watch(std::int64_t sequence, WorkPtr work);

  c10::intrusive_ptr<c10d::Backend> inner_;
  std::string group_;
  CollectiveObserver& observer_;
  bool poll_;
  std::mutex mutex_;
  std::int64_t next_sequence_ = 0;
  std::map<std::int64_t, WorkPtr> pending_;
};

}  // namespace nsa
