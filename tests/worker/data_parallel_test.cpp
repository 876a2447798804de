// Every option of the data-parallel step, on a group of one: gradients are the plain ones, and each bucket is reduced once an
// optimiser step, in its last micro-batch.
#include "nsa/parallel/data_parallel.h"

#include <gtest/gtest.h>

#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/bf16_compress.h"
#include "nsa/parallel/by_hand_reduce.h"
#include "tests/worker/alone.h"
#include "tests/worker/small_model.h"

namespace harness {
namespace {

constexpr int kSteps = 3;

struct Net {
  Net() {
    torch::manual_seed(1);
    model = nsa::NsaLm(tests::small_model(2), std::map<std::string, std::string>{}, routes);
    for (const auto& item : model->named_parameters()) named.emplace_back(item.key(), item.value());
  }
  torch::Tensor loss(int step, int micro) {
    const auto tokens_BS =
        torch::arange(40, torch::kLong).mul(step + 3 * micro + 1).remainder(32).view({1, 40});
    return nsa::next_token_loss(model->forward(tokens_BS), tokens_BS);
  }
  void drop() {
    for (auto& [name, parameter] : named) parameter.mutable_grad().reset();
  }
  nsa::Routes routes;
  nsa::NsaLm model{nullptr};
  nsa::NamedParameters named;
};

struct Trained {
  std::vector<std::vector<torch::Tensor>> gradients;  // of each step
  std::vector<std::vector<int>> reductions;  // all-reduces of floats, of each step and micro-batch
  std::vector<int> buckets;
};

Trained train(const nsa::DataParallelOptions& options,
              int accumulate,
              const std::string& grad_sync = "") {
  Net net;
  tests::SeenCollectives seen;
  nsa::Communicator communicator(tests::alone(), seen);
  nsa::DataParallelOptions wanted = options;
  if (grad_sync == "bf16") wanted.reduce_bucket = nsa::bf16_compressed(communicator, net.routes);
  if (grad_sync == "by_hand") nsa::reduce_by_hand(wanted, communicator, net.routes);
  nsa::DataParallel parallel(net.named, communicator, net.routes, wanted);
  Trained trained;
  for (int step = 1; step <= kSteps; ++step) {
    net.drop();
    trained.reductions.emplace_back();
    for (int micro = 0; micro < accumulate; ++micro) {
      const std::size_t before = seen.begun.size();
      parallel.before_forward(micro + 1 == accumulate);
      if (micro + 1 == accumulate)
        trained.buckets.push_back(static_cast<int>(parallel.buckets().size()));
      parallel.backward(net.loss(step, micro));
      int reduced = 0;
      for (std::size_t i = before; i < seen.begun.size(); ++i) {
        reduced += seen.begun[i].op == "allreduce" && seen.begun[i].dtype != "Int" ? 1 : 0;
      }
      trained.reductions.back().push_back(reduced);
    }
    trained.gradients.emplace_back();
    for (const auto& [name, parameter] : net.named)
      trained.gradients.back().push_back(parameter.grad().clone());
  }
  return trained;
}

std::vector<torch::Tensor> plain(int step, int accumulate) {
  Net net;
  for (int micro = 0; micro < accumulate; ++micro) net.loss(step, micro).backward();
  std::vector<torch::Tensor> gradients;
  for (const auto& [name, parameter] : net.named) gradients.push_back(parameter.grad());
  return gradients;
}

void expect_plain(const Trained& trained,
                  int accumulate,
                  double relative,
                  const std::string& what) {
  for (int step = 1; step <= kSteps; ++step) {
    const auto wanted = plain(step, accumulate);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto& found = trained.gradients[static_cast<std::size_t>(step - 1)][i];
      const double scale = wanted[i].abs().max().item<double>();
      EXPECT_LE((found - wanted[i]).abs().max().item<double>(), relative * scale)
          << what << " " << step << " " << i;
    }
  }
}

void expect_reduced_once(const Trained& trained, int accumulate, const std::string& what) {
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (int micro = 0; micro + 1 < accumulate; ++micro) {
      EXPECT_EQ(trained.reductions[step][static_cast<std::size_t>(micro)], 0)
          << what << " step " << step + 1;
    }
    EXPECT_EQ(trained.reductions[step].back(), trained.buckets[step])
        << what << " step " << step + 1;
  }
}

TEST(DataParallel, EveryOptionGivesThePlainGradientsReducedOnce) {
  for (int set = 0; set < 16; ++set) {
    nsa::DataParallelOptions options;
    options.static_graph = (set & 1) != 0;
    options.find_unused = (set & 2) != 0;
    options.gradient_as_bucket_view = (set & 4) != 0;
    options.bucket_mb = (set & 8) != 0 ? 0.004 : 25.0;
    for (const int accumulate : {1, 3}) {
      const std::string what =
          "options " + std::to_string(set) + ", accumulate " + std::to_string(accumulate);
      const Trained trained = train(options, accumulate);
      expect_plain(trained, accumulate, 1e-6, what);
      expect_reduced_once(trained, accumulate, what);
    }
  }
}

TEST(DataParallel, CompressedGradientsAreThePlainOnesToEightBits) {
  const Trained trained = train({}, 2, "bf16");
  expect_plain(trained, 2, 0x1p-8, "bf16");
  expect_reduced_once(trained, 2, "bf16");
}

// Whatever stood in the seam: here buckets that come back doubled, reduced in every micro-batch.
TEST(DataParallel, ByHandGivesThePlainGradientsReducedOnce) {
  nsa::DataParallelOptions options;
  options.policy.reduces = [](bool) { return true; };
  options.reduce_bucket = [](c10d::GradBucket& bucket) {
    const auto done = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    done->markCompleted(c10::IValue(std::vector<torch::Tensor>{bucket.getBufferRef().mul_(2)}));
    return done;
  };
  const Trained trained = train(options, 2, "by_hand");
  expect_plain(trained, 2, 1e-6, "by hand");
  expect_reduced_once(trained, 2, "by hand");
}

// What the reducer does when nobody keeps the first micro-batches from it: it waits for hooks that never come.
TEST(DataParallel, AStaticGraphThatCountsMicroBatchesStopsReducing) {
  nsa::DataParallelOptions options;
  options.static_graph = true;
  options.policy.hides_first_micro_batches = [] { return false; };
  const Trained trained = train(options, 2);
  EXPECT_GT(trained.reductions[0].back(), 0);
  EXPECT_EQ(trained.reductions[1].back(), 0);
}

TEST(DataParallel, AStaticGraphWithoutItsDelayedReductionReducesNothingInTheFirstStep) {
  nsa::DataParallelOptions options;
  options.static_graph = true;
  options.policy.queues_delayed = [](bool) { return false; };
  EXPECT_EQ(train(options, 1).reductions[0].back(), 0);
}

}  // namespace
}  // namespace harness
