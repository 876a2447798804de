// Every operation of a backend is told and passed on, and nothing is told of a backend that is gone.
#include "nsa/parallel/observed_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/alone.h"

namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Work that is done when the test says so.
class OpenWork : public c10d::Work {
 public:
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  bool isCompleted() override { return future_->completed(); }
  void finish() { future_->markCompleted(c10::IValue()); }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_ =
      c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
};

// Does nothing, and says which of its functions was called.
class Listed : public c10d::Backend {
 public:
  Listed() : c10d::Backend(0, 1) {}
  const std::string getBackendName() const override { return "listed"; }
  void startCoalescing() override { called.emplace_back("startCoalescing"); }
  WorkPtr endCoalescing() override { return call("endCoalescing"); }
  WorkPtr broadcast(Tensors&, const c10d::BroadcastOptions&) override { return call("broadcast"); }
  WorkPtr allreduce(Tensors&, const c10d::AllreduceOptions&) override { return call("allreduce"); }
  WorkPtr allreduce_sparse(Tensors&, const c10d::AllreduceOptions&) override {
    return call("allreduce_sparse");
  }
  WorkPtr allreduce_coalesced(Tensors&, const c10d::AllreduceCoalescedOptions&) override {
    return call("allreduce_coalesced");
  }
  WorkPtr reduce(Tensors&, const c10d::ReduceOptions&) override { return call("reduce"); }
  WorkPtr allgather(std::vector<Tensors>&, Tensors&, const c10d::AllgatherOptions&) override {
    return call("allgather");
  }
  WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override {
    return call("allgather_base");
  }
  WorkPtr allgather_coalesced(std::vector<Tensors>&,
                              Tensors&,
                              const c10d::AllgatherOptions&) override {
    return call("allgather_coalesced");
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors&,
                                          Tensors&,
                                          const c10d::AllgatherOptions&) override {
    return call("allgather_into_tensor_coalesced");
  }
  WorkPtr gather(std::vector<Tensors>&, Tensors&, const c10d::GatherOptions&) override {
    return call("gather");
  }
  WorkPtr scatter(Tensors&, std::vector<Tensors>&, const c10d::ScatterOptions&) override {
    return call("scatter");
  }
  WorkPtr reduce_scatter(Tensors&,
                         std::vector<Tensors>&,
                         const c10d::ReduceScatterOptions&) override {
    return call("reduce_scatter");
  }
  WorkPtr _reduce_scatter_base(at::Tensor&,
                               at::Tensor&,
                               const c10d::ReduceScatterOptions&) override {
    return call("reduce_scatter_base");
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors&,
                                          Tensors&,
                                          const c10d::ReduceScatterOptions&) override {
    return call("reduce_scatter_tensor_coalesced");
  }
  WorkPtr alltoall_base(at::Tensor&,
                        at::Tensor&,
                        std::vector<int64_t>&,
                        std::vector<int64_t>&,
                        const c10d::AllToAllOptions&) override {
    return call("alltoall_base");
  }
  WorkPtr alltoall(Tensors&, Tensors&, const c10d::AllToAllOptions&) override {
    return call("alltoall");
  }
  WorkPtr send(Tensors&, int, int) override { return call("send"); }
  WorkPtr recv(Tensors&, int, int) override { return call("recv"); }
  WorkPtr recvAnysource(Tensors&, int) override { return call("recv_any_source"); }
  WorkPtr barrier(const c10d::BarrierOptions&) override { return call("barrier"); }
  void monitoredBarrier(const c10d::BarrierOptions&, bool) override {
    called.emplace_back("monitored_barrier");
  }

  std::vector<std::string> called;
  std::vector<c10::intrusive_ptr<OpenWork>> works;

 private:
  WorkPtr call(const std::string& name) {
    called.push_back(name);
    works.push_back(c10::make_intrusive<OpenWork>());
    return works.back();
  }
};

struct Watched {
  explicit Watched(bool poll = false)
      : backend(c10::make_intrusive<nsa::ObservedBackend>(inner, "default", seen, poll)) {}

  tests::SeenCollectives seen;
  c10::intrusive_ptr<Listed> inner = c10::make_intrusive<Listed>();
  c10::intrusive_ptr<nsa::ObservedBackend> backend;
  at::Tensor one = at::zeros({2, 3});
  Tensors list = {one, one};
  std::vector<Tensors> lists = {list};
  std::vector<int64_t> sizes = {2};
};

// As c10d calls them: through the base class.
void call_all(Watched& s) {
  c10d::Backend& backend = *s.backend;
  backend.broadcast(s.list);
  backend.allreduce(s.list);
  backend.allreduce_sparse(s.list);
  backend.allreduce_coalesced(s.list);
  backend.reduce(s.list);
  backend.allgather(s.lists, s.list);
  backend._allgather_base(s.one, s.one);
  backend.allgather_coalesced(s.lists, s.list);
  backend.allgather_into_tensor_coalesced(s.list, s.list);
  backend.gather(s.lists, s.list);
  backend.scatter(s.list, s.lists);
  backend.reduce_scatter(s.list, s.lists);
  backend._reduce_scatter_base(s.one, s.one);
  backend.reduce_scatter_tensor_coalesced(s.list, s.list);
  backend.alltoall_base(s.one, s.one, s.sizes, s.sizes);
  backend.alltoall(s.list, s.list);
  backend.send(s.list, 0, 0);
  backend.recv(s.list, 0, 0);
  backend.recvAnysource(s.list, 0);
  backend.barrier();
  backend.monitoredBarrier(c10d::BarrierOptions(), false);
}

TEST(ObservedBackend, EveryOperationIsToldAndPassedOn) {
  for (const bool poll : {false, true}) {
    Watched watched(poll);
    call_all(watched);
    std::vector<std::string> told;
    for (const nsa::CollectiveInfo& info : watched.seen.begun) {
      EXPECT_EQ(info.sequence, static_cast<std::int64_t>(told.size()));
      told.push_back(info.op);
    }
    EXPECT_EQ(told, watched.inner->called);
    EXPECT_EQ(told.size(), 21U);
    EXPECT_EQ(watched.seen.ended.size(), 1U) << "of what waits itself, monitored_barrier";
    for (const auto& work : watched.inner->works) work->finish();
    watched.backend->poll_completed();
    EXPECT_EQ(watched.seen.ended.size(), told.size());
  }
}

TEST(ObservedBackend, WhatIsCoalescedIsDoneTogether) {
  Watched watched;
  watched.backend->startCoalescing();
  watched.backend->send(watched.list, 0, 0);
  watched.backend->recv(watched.list, 0, 0);
  watched.inner->works[0]->finish();
  watched.backend->endCoalescing();
  EXPECT_TRUE(watched.seen.ended.empty());
  watched.inner->works[2]->finish();
  EXPECT_THAT(watched.seen.ended, testing::ElementsAre(0, 1));
}

TEST(ObservedBackend, NothingIsToldOfOneThatIsGone) {
  Watched watched;
  const WorkPtr work = watched.backend->allreduce(watched.list, c10d::AllreduceOptions());
  watched.backend.reset();
  watched.inner->works[0]->finish();
  EXPECT_TRUE(watched.seen.ended.empty());
}

}  // namespace
