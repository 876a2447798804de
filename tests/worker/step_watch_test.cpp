// What is recorded around a step: memory by phase, how often the host waited.
#include <map>
#include <optional>

#include "harness/worker/heartbeat.h"
#include "harness/worker/watch/host_syncs.h"
#include "harness/worker/watch/phase_memory.h"
#include "tests/worker/channel_test_base.h"

namespace {

class StepWatch : public tests::ChannelTest {
 protected:
  std::map<std::string, double> samples() {
    std::map<std::string, double> values;
    for (const auto& row : written<harness::Sample>()) values[row.metric] = row.value.value;
    return values;
  }

  // The heartbeat takes this signal for itself.
  const bool signal_is_blocked_ = [] {
    harness::block_stack_request();
    return true;
  }();
  harness::Progress progress_;
  harness::HeartbeatThread heartbeat_{channel_, progress_};
  harness::Session session_{{}, {}, channel_, progress_, heartbeat_};
};

TEST_F(StepWatch, EachPhaseHasItsOwnPeak) {
  constexpr std::int64_t kFloats = std::int64_t{1} << 20;
  std::optional<harness::PhaseMemory> memory(std::in_place, session_, torch::kCPU);
  memory->begin_step(3);
  session_.enter("forward", 3);
  auto kept = torch::zeros({kFloats});
  session_.enter("backward", 3);
  (void)torch::zeros({2 * kFloats});
  session_.enter("forward", 3);  // a second micro-batch: the larger of its turns counts
  session_.enter("optimizer", 3);
  memory->end_step();
  const auto seen = samples();
  const double unit = 4.0 * kFloats;
  EXPECT_GE(seen.at("peak_bytes.backward") - seen.at("peak_bytes.forward"), 2.0 * unit);
  EXPECT_GE(seen.at("peak_bytes.forward"), unit);
  EXPECT_LT(seen.at("peak_bytes.optimizer"), seen.at("peak_bytes.backward"));
  EXPECT_EQ(seen.at("tensor_peak_bytes"), seen.at("peak_bytes.backward"));
  memory.reset();
  session_.enter("save", 3);
  EXPECT_EQ(samples().size(), seen.size()) << "nobody follows the phases any more";
}

TEST_F(StepWatch, WhatTheHostWaitsForIsCounted) {
  const auto tensor = torch::ones({3});
  (void)tensor.sum().item<double>();  // before anybody counts
  harness::HostSyncs syncs;
  (void)syncs.take();
  const auto sum = (tensor + 1.0).sum();
  EXPECT_EQ(syncs.take(), 0);
  (void)sum.item<double>();
  (void)tensor.nonzero();
  EXPECT_EQ(syncs.take(), 2);
  EXPECT_EQ(syncs.take(), 0) << "since the last call";
  {
    harness::HostSyncs another;
    (void)sum.item<double>();
    EXPECT_EQ(another.take(), 1);
    EXPECT_EQ(syncs.take(), 1) << "however many count";
  }
  (void)sum.item<double>();
  EXPECT_EQ(syncs.take(), 1) << "one that ends leaves the others counting";
}

// Whatever needs the numbers of a tensor for its own result's size, and whatever gives one to the host; once each.
TEST_F(StepWatch, WhateverNeedsTheNumbersOfATensorIsAWait) {
  const auto ones = torch::ones({3}, torch::kLong);
  const auto mask = ones.gt(0);
  const std::map<std::string, std::function<void()>> waits = {
      {"item", [&] { (void)ones.sum().item<std::int64_t>(); }},
      {"is_nonzero", [&] { (void)ones.sum().is_nonzero(); }},
      {"nonzero", [&] { (void)ones.nonzero(); }},
      {"argwhere", [&] { (void)torch::argwhere(ones); }},
      {"masked_select", [&] { (void)ones.masked_select(mask); }},
      {"index by a mask", [&] { (void)ones.index({mask}); }},
      {"index_put by a mask", [&] { (void)ones.clone().index_put_({mask}, 2); }},
      {"bincount", [&] { (void)ones.bincount(); }},
      {"unique", [&] { (void)at::_unique2(ones); }},
      {"unique_consecutive", [&] { (void)std::get<0>(at::unique_consecutive(ones)); }},
      {"repeat_interleave", [&] { (void)at::repeat_interleave(ones); }},
      {"equal", [&] { (void)ones.equal(ones); }},
      {"allclose", [&] { (void)ones.allclose(ones); }}};
  harness::HostSyncs syncs;
  for (const auto& [name, wait] : waits) {
    (void)syncs.take();
    wait();
    EXPECT_EQ(syncs.take(), 1) << name;
  }
  const std::map<std::string, std::function<void()>> others = {
      {"index by numbers", [&] { (void)torch::rand({3}).index({ones.sub(1)}); }},
      {"repeat of a known count", [&] { (void)ones.repeat_interleave(2); }},
      {"where", [&] { (void)torch::where(mask, ones, 0); }},
      {"topk", [&] { (void)ones.topk(2); }},
      {"matmul",
       [&] {
         (void)torch::rand({3, 3}).matmul(torch::rand({3, 3}));
       }},
      {"a copy on the host", [&] { (void)ones.to(torch::kFloat).contiguous().clone(); }}};
  for (const auto& [name, other] : others) {
    (void)syncs.take();
    other();
    EXPECT_EQ(syncs.take(), 0) << name;
  }
}

}  // namespace
