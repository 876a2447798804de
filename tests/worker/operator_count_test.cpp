// Operators are counted where LibTorch's dispatcher asks: as many as a callback of RecordFunction is told of.
#include "harness/worker/watch/operator_count.h"

#include <atomic>
#include <thread>

#include <ATen/record_function.h>

#include <gtest/gtest.h>

#include "harness/worker/work_counters.h"
#include "nsa/torch.h"

namespace harness {
namespace {

std::atomic<std::int64_t> told_forward{0};   // NOLINT: RecordFunction takes plain functions
std::atomic<std::int64_t> told_backward{0};  // NOLINT: likewise

std::unique_ptr<at::ObserverContext> tell(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    ++told_backward;
  } else if (function.operator_name()) {  // the engine announces each node as a function as well
    ++told_forward;
  }
  return nullptr;
}

void some_steps() {
  const auto weight = torch::rand({8, 8}).requires_grad_();
  for (int step = 0; step < 3; ++step) {
    at::layer_norm(torch::rand({4, 8}).matmul(weight).softmax(-1), {8}).square().mean().backward();
    const torch::NoGradGuard no_grad;
    weight.sub_(weight.grad()).mutable_grad().reset();
  }
}

TEST(OperatorCount, IsWhatACallbackAtEachOperatorIsTold) {
  ASSERT_TRUE(operators_are_seen());
  const auto callback = at::addGlobalCallback(at::RecordFunctionCallback(&tell).scopes(
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  const OperatorCount before = operators_run();
  told_forward = told_backward = 0;
  some_steps();
  std::thread(some_steps).join();
  const OperatorCount after = operators_run();
  at::removeCallback(callback);
  EXPECT_GT(told_backward, 0);
  EXPECT_EQ(after.forward - before.forward, told_forward);
  EXPECT_EQ(after.backward - before.backward, told_backward);
}

TEST(OperatorCount, GoesOnWhereNobodyRecords) {
  const OperatorCount before = operators_run();
  some_steps();
  const OperatorCount after = operators_run();
  EXPECT_GT(after.forward, before.forward);
  EXPECT_GT(after.backward, before.backward);
}

TEST(OperatorCount, ProgressTellsItWhereItIsAskedTo) {
  Progress progress;
  some_steps();
  EXPECT_EQ(progress.heartbeat().counters.operators_forward, 0);
  EXPECT_EQ(progress.watch_operators(), "dispatch");
  const Heartbeat before = progress.heartbeat();
  some_steps();
  const Heartbeat after = progress.heartbeat();
  EXPECT_GT(after.counters.operators_forward, before.counters.operators_forward);
  EXPECT_GT(after.counters.operators_backward, before.counters.operators_backward);
}

// In a process of its own: the callback never ends.
TEST(OperatorCountDeathTest, ACallbackCountsWhereTheDispatcherDoesNotAsk) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const OperatorCount before = operators_run();
        some_steps();
        const OperatorCount once = operators_run();
        count_operators_by_callback();
        some_steps();
        const OperatorCount twice = operators_run();
        const bool both = twice.forward - once.forward >= 2 * (once.forward - before.forward) &&
                          twice.backward - once.backward == 2 * (once.backward - before.backward);
        std::_Exit(both ? 7 : 1);
      },
      ::testing::ExitedWithCode(7),
      "");
}

}  // namespace
}  // namespace harness
