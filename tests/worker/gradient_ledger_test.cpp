#include "harness/worker/record/gradient_ledger.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "nsa/base/hash.h"
#include "nsa/base/safetensors.h"
#include "tests/worker/alone.h"

namespace harness {
namespace {

// Three parameters of which `c` can be left out of the loss.
struct ThreeParameters {
  torch::Tensor a = torch::randn({4, 3}, torch::requires_grad());
  torch::Tensor b = torch::randn({5, 4}, torch::requires_grad());
  torch::Tensor c = torch::randn({5}, torch::requires_grad());

  [[nodiscard]] nsa::NamedParameters parameters() const { return {{"a", a}, {"b", b}, {"c", c}}; }
  [[nodiscard]] torch::Tensor loss(bool with_c = true) const {
    const auto y = torch::matmul(b, torch::tanh(torch::matmul(a, torch::ones({3}))));
    return (with_c ? y * c : y).square().sum();
  }
};

// One rank with a Reducer, and the ledger in front of it.
struct Rank {
  ThreeParameters net;
  Progress progress;
  GradientLedger ledger{net.parameters(), progress};
  tests::SeenCollectives seen;
  nsa::Communicator communicator{tests::alone(), seen};
  nsa::Routes routes;
  nsa::DataParallel parallel{net.parameters(), communicator, routes, nsa::DataParallelOptions{}};

  Rank() { ledger.expect_hooks(2); }

  void forward_and_begin(const torch::Tensor& loss, TensorFile* local = nullptr) {
    parallel.before_forward();
    ledger.set_buckets(parallel.buckets());
    ledger.begin(1, 0, loss, local);
    parallel.before_backward(loss);
  }
};

const Gradient& row_of(const GradientLedger& ledger, const std::string& param) {
  for (const Gradient& row : ledger.rows()) {
    if (row.param == param) {
      return row;
    }
  }
  throw std::runtime_error("no row for " + param);
}

TEST(GradientLedger, EachParameterIsReadyOnceWithItsOwnGradient) {
  Rank rank;
  const auto loss = rank.net.loss();
  rank.forward_and_begin(loss);
  loss.backward();
  rank.parallel.after_backward();
  rank.ledger.after_reduction(nullptr);
  std::vector<int> orders;
  for (const auto& [name, tensor] : rank.net.parameters()) {
    const Gradient& row = row_of(rank.ledger, name);
    EXPECT_EQ(row.reachable, Reach::yes) << name;
    EXPECT_EQ(row.ready_count, 1) << name;
    EXPECT_EQ(row.hooks_found, 2) << name;
    EXPECT_EQ(row.bucket, 0) << name;
    EXPECT_EQ(row.state, "ok") << name;
    EXPECT_EQ(row.hash_before, nsa::hash_hex(bytes_of(tensor.grad()))) << name;
    EXPECT_EQ(row.hash_after, row.hash_before) << "the mean over one rank is its own gradient";
    EXPECT_DOUBLE_EQ(row.l2, tensor.grad().to(torch::kFloat64).norm().item<double>());
    orders.push_back(row.ready_order);
  }
  std::sort(orders.begin(), orders.end());
  EXPECT_EQ(orders, (std::vector<int>{0, 1, 2}));
}

TEST(GradientLedger, AParameterOutsideTheGraphIsUnreachableAndTheReducerComplains) {
  Rank rank;
  const auto loss = rank.net.loss(false);
  rank.forward_and_begin(loss);
  loss.backward();
  EXPECT_THROW(rank.parallel.after_backward(), c10::Error);
  EXPECT_EQ(row_of(rank.ledger, "c").reachable, Reach::no);
  EXPECT_EQ(row_of(rank.ledger, "c").ready_count, 0);
  EXPECT_EQ(row_of(rank.ledger, "c").state, "none");
  EXPECT_EQ(row_of(rank.ledger, "a").reachable, Reach::yes);
}

// Re-materialising a parameter (here by changing its type and back) gives it a new accumulator without any hook.
TEST(GradientLedger, ADroppedHookIsSeen) {
  Rank rank;
  rank.net.b.set_data(rank.net.b.data().to(torch::kFloat64));
  rank.net.b.set_data(rank.net.b.data().to(torch::kFloat32));
  const auto loss = rank.net.loss();
  rank.forward_and_begin(loss);
  loss.backward();
  EXPECT_LT(row_of(rank.ledger, "b").hooks_found, row_of(rank.ledger, "b").hooks_expected);
  EXPECT_EQ(row_of(rank.ledger, "b").ready_count, 0);
  EXPECT_EQ(row_of(rank.ledger, "a").hooks_found, 2);
}

TEST(GradientLedger, ADoubledHookIsSeen) {
  Rank rank;
  nsa::DataParallel again(
      rank.net.parameters(), rank.communicator, rank.routes, nsa::DataParallelOptions{});
  const auto loss = rank.net.loss();
  rank.forward_and_begin(loss);
  EXPECT_GT(row_of(rank.ledger, "a").hooks_found, row_of(rank.ledger, "a").hooks_expected);
}

TEST(GradientLedger, ANestedBackwardMarksAParameterReadyTwice) {
  ThreeParameters net;
  Progress progress;
  GradientLedger ledger(net.parameters(), progress);
  const auto loss = net.loss();
  ledger.begin(1, 0, loss, nullptr);
  loss.backward({}, /*retain_graph=*/true);
  loss.backward();
  EXPECT_EQ(row_of(ledger, "a").ready_count, 2);
}

TEST(GradientLedger, NanAndZeroAreStates) {
  ThreeParameters net;
  Progress progress;
  GradientLedger ledger(net.parameters(), progress);
  const auto loss = (net.a * NAN).sum() + (net.b * 0.0).sum() + net.c.sum();
  ledger.begin(1, 0, loss, nullptr);
  loss.backward();
  EXPECT_EQ(row_of(ledger, "a").state, "nan");
  EXPECT_TRUE(std::isnan(row_of(ledger, "a").absmax));
  EXPECT_EQ(row_of(ledger, "b").state, "zero");
  EXPECT_EQ(row_of(ledger, "c").state, "ok");
}

TEST(GradientLedger, WatchingEventsCountsAndLooksAtNoValue) {
  ThreeParameters net;
  Progress progress;
  GradientLedger ledger(net.parameters(), progress, kWatchEvents);
  const auto loss = net.loss();
  ledger.begin(1, 0, loss, nullptr);
  loss.backward();
  ledger.after_reduction(nullptr);
  for (const Gradient& row : ledger.rows()) {
    EXPECT_EQ(row.ready_count, 1) << row.param;
    EXPECT_GE(row.ready_order, 0) << row.param;
    EXPECT_EQ(row.reachable, Reach::yes) << row.param;
    EXPECT_EQ(row.state, kUnread) << row.param;
    EXPECT_EQ(row.hash_before + row.hash_after, "") << row.param;
    EXPECT_TRUE(row.reduced) << row.param;
  }
}

// The graph is walked after the backward, and only for what did not come.
TEST(GradientLedger, WatchingEventsTellsWhatTheLossDoesNotReach) {
  ThreeParameters net;
  Progress progress;
  GradientLedger ledger(net.parameters(), progress, kWatchEvents);
  const auto loss = net.loss(false);
  ledger.begin(1, 0, loss, nullptr);
  loss.backward();
  ledger.after_reduction(nullptr);
  EXPECT_EQ(row_of(ledger, "a").reachable, Reach::yes);
  EXPECT_EQ(row_of(ledger, "c").reachable, Reach::no);
  EXPECT_EQ(row_of(ledger, "c").state, "none");
}

TEST(GradientLedger, WatchingEventsTellsAGradientThatTheLossReachesAndThatDidNotCome) {
  ThreeParameters net;
  Progress progress;
  GradientLedger ledger(net.parameters(), progress, kWatchEvents);
  const auto loss = net.loss();
  ledger.begin(1, 0, loss, nullptr);
  loss.backward({}, std::nullopt, false, std::vector<torch::Tensor>{net.b});
  ledger.after_reduction(nullptr);
  EXPECT_EQ(row_of(ledger, "b").ready_count, 1);
  EXPECT_EQ(row_of(ledger, "a").ready_count, 0);
  EXPECT_EQ(row_of(ledger, "a").reachable, Reach::yes);
}

TEST(GradientLedger, WatchingProcessesPutsNoHookIn) {
  ThreeParameters net;
  Progress progress;
  GradientLedger ledger(net.parameters(), progress, kWatchProcesses);
  const auto loss = net.loss();
  ledger.begin(1, 0, loss, nullptr);
  loss.backward();
  ledger.after_reduction(nullptr);
  EXPECT_TRUE(ledger.rows().empty());
  EXPECT_EQ(progress.heartbeat().counters.hooks, 0);
  EXPECT_TRUE(torch::autograd::impl::grad_accumulator(net.a)->post_hooks().empty());
}

TEST(GradientLedger, LocalGradientsLieInTheFileUnderTheirNames) {
  Rank rank;
  const auto path =
      (std::filesystem::temp_directory_path() / ("ledger_" + std::to_string(getpid()))).string();
  TensorFile file(path, gradient_plan(rank.net.parameters()));
  const auto loss = rank.net.loss();
  rank.forward_and_begin(loss, &file);
  loss.backward();
  rank.parallel.after_backward();
  const Artefact artefact = file.finish();
  const nsa::SafetensorsFile read(path);
  EXPECT_EQ(artefact.hash, nsa::hash_file(path));
  for (const auto& [name, tensor] : rank.net.parameters()) {
    EXPECT_EQ(nsa::hash_hex(read.at(name).bytes), row_of(rank.ledger, name).hash_before);
    EXPECT_EQ(read.at(name).shape, tensor.sizes().vec());
  }
  std::filesystem::remove(path);
}

TEST(ObservedBackend, RecordsEveryCollectiveBeforeAndAfter) {
  Rank rank;
  const std::size_t at_start = rank.seen.begun.size();
  EXPECT_GT(at_start, 0U) << "verification and broadcast of the initial values";
  const auto loss = rank.net.loss();
  rank.forward_and_begin(loss);
  loss.backward();
  rank.parallel.after_backward();
  ASSERT_EQ(rank.seen.begun.size(), at_start + 1);
  const nsa::CollectiveInfo& reduction = rank.seen.begun.back();
  EXPECT_EQ(reduction.op, "allreduce");
  EXPECT_EQ(reduction.reduce_op, "sum");
  EXPECT_EQ(reduction.dtype, "Float");
  EXPECT_EQ(reduction.count, 4 * 3 + 5 * 4 + 5);
  for (std::size_t i = 0; i < rank.seen.begun.size(); ++i) {
    EXPECT_EQ(rank.seen.begun[i].sequence, static_cast<std::int64_t>(i));
  }
  EXPECT_TRUE(rank.seen.all_ended());
  EXPECT_EQ(rank.seen.ended.size(), rank.seen.begun.size());
}

}  // namespace
}  // namespace harness
