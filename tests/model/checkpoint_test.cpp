// Activation checkpointing changes no number: in either form, over any set of layers, loss and gradients are those of the plain
// model bit by bit; and what must be kept for that is kept.
#include <algorithm>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "nsa/train/activation_checkpoint.h"
#include "nsa/train/autocast.h"
#include "tests/model/support.h"
#include "tests/model/variants.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

constexpr std::int64_t kLength = 70;

struct Trained {
  explicit Trained(const ModelConfig& config) {
    torch::manual_seed(5);
    model = NsaLm(config, std::map<std::string, std::string>{}, routes);
    model->to(torch::kDouble);
  }
  void checkpoint(const std::vector<int>& layers, const std::string& mode, bool keep = false) {
    ParallelConfig parallel;
    parallel.checkpoint_layers = layers;
    parallel.checkpoint_mode = mode;
    parallel.checkpoint_keep_blocks = keep;
    checkpointing = std::make_unique<ActivationCheckpoint>(model, parallel, routes);
  }
  std::vector<Tensor> gradients() {
    const auto tokens_BS =
        torch::arange(2 * kLength, torch::kLong).mul(7).remainder(29).reshape({2, kLength});
    {
      const AutocastScope forward(torch::kCPU, autocast);
      loss = next_token_loss(model->forward(tokens_BS), tokens_BS);
    }
    loss.backward();
    std::vector<Tensor> found;
    for (const auto& parameter : model->parameters()) found.push_back(parameter.grad());
    return found;
  }

  Routes routes;
  NsaLm model{nullptr};
  std::unique_ptr<ActivationCheckpoint> checkpointing;
  Tensor loss;
  bool autocast = false;
};

ModelConfig four_layers() {
  ModelConfig config = small_config();
  config.n_layers = 4;
  return config;
}

void expect_same(const std::vector<Tensor>& a,
                 const std::vector<Tensor>& b,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].defined() && b[i].defined() && torch::equal(a[i], b[i])) << what << " " << i;
  }
}

TEST(Checkpoint, EverySetOfLayersInEveryFormGivesThePlainGradients) {
  for (const auto& [name, variant] : variants()) {
    ModelConfig config = variant;
    config.n_layers = 4;
    const std::vector<Tensor> plain = Trained(config).gradients();
    for (const std::string mode : {"functional", "nested"}) {
      for (unsigned set = 1; set < 16; ++set) {
        std::vector<int> layers;
        for (int layer = 0; layer < 4; ++layer) {
          if ((set >> static_cast<unsigned>(layer) & 1U) != 0U) layers.push_back(layer);
        }
        Trained trained(config);
        trained.checkpoint(layers, mode);
        expect_same(plain, trained.gradients(), name + " " + mode + " " + std::to_string(set));
      }
    }
  }
}

// Under autocast: the way back of what is computed again rounds no more than the plain one, and no cast of a weight outlives its
// step. The weights move between the two steps.
TEST(Checkpoint, AutocastGivesThePlainGradientsInEveryStep) {
  const auto two_steps = [](const std::vector<int>& layers, const std::string& mode) {
    Trained trained(four_layers());
    trained.model->to(torch::kFloat);
    trained.checkpoint(layers, mode);
    trained.autocast = true;
    std::vector<Tensor> found;
    for (int step = 0; step < 2; ++step) {
      trained.model->zero_grad();
      for (const Tensor& gradient : trained.gradients()) found.push_back(gradient.clone());
      const torch::NoGradGuard no_grad;
      for (const auto& parameter : trained.model->parameters()) parameter.mul_(1.25);
    }
    return found;
  };
  const std::vector<Tensor> plain = two_steps({}, "functional");
  for (const std::string mode : {"functional", "nested"}) {
    expect_same(plain, two_steps({1, 3}, mode), mode);
  }
}

// What is random in a block comes out again.
TEST(Checkpoint, RandomNumbersAreDrawnAgain) {
  const auto add_noise = [](Trained& trained) {
    for (int layer = 0; layer < 4; ++layer) {
      auto& seams = trained.model->attention(layer)->seams();
      seams.compress = [inner = seams.compress](const SeamContext& context,
                                                const Tensor& raw_BGSD,
                                                Pooled what,
                                                const PhiWeights& weights) {
        const Tensor pooled_BGCD = inner(context, raw_BGSD, what, weights);
        return pooled_BGCD * torch::rand_like(pooled_BGCD);
      };
    }
    torch::manual_seed(11);
  };
  Trained plain(four_layers());
  add_noise(plain);
  const std::vector<Tensor> wanted = plain.gradients();
  const Tensor after = torch::rand({1});
  for (const std::string mode : {"functional", "nested"}) {
    Trained trained(four_layers());
    trained.checkpoint({0, 1, 2, 3}, mode);
    add_noise(trained);
    expect_same(wanted, trained.gradients(), mode);
    EXPECT_TRUE(torch::equal(after, torch::rand({1})))
        << mode << ": the stream goes on where it was";
  }
}

TEST(Checkpoint, KeptBlocksAreChosenOnce) {
  for (const bool keep : {false, true}) {
    Trained trained(four_layers());
    int chosen = 0;
    auto& seams = trained.model->attention(1)->seams();
    seams.select = [inner = seams.select, &chosen](const SeamContext& context, const Tensor& p) {
      ++chosen;
      return inner(context, p);
    };
    trained.checkpoint({1}, "functional", keep);
    (void)trained.gradients();
    EXPECT_EQ(chosen, keep ? 1 : 2);
  }
}

TEST(Checkpoint, CountsItselfByLayerFormAndDirection) {
  Trained trained(four_layers());
  trained.checkpoint({0, 2}, "nested");
  (void)trained.gradients();
  std::vector<int> layers;
  for (const RouteCount& count : trained.routes.counts()) {
    if (count.seam != "checkpoint") continue;
    EXPECT_EQ(count.implementation, "nested");
    EXPECT_EQ(count.forward, 1);
    layers.push_back(count.layer);
  }
  std::sort(layers.begin(), layers.end());
  EXPECT_EQ(layers, (std::vector<int>{0, 2}));
}

TEST(Checkpoint, IsToldBothTimesAndKnowsWhichOneItIs) {
  Trained trained(four_layers());
  trained.checkpoint({3}, "functional");
  Tensor first;
  Tensor second;
  bool again = false;
  trained.checkpointing->observe({[&](int, const Tensor& y) { first = y.detach().clone(); },
                                  [&](int, const Tensor& y) {
                                    second = y.detach().clone();
                                    again = is_recomputing();
                                  }});
  (void)trained.gradients();
  EXPECT_TRUE(torch::equal(first, second));
  EXPECT_TRUE(again);
  EXPECT_FALSE(is_recomputing());
}

TEST(Checkpoint, NestedParametersAreFoundAtTheirNode) {
  for (const std::string mode : {"functional", "nested"}) {
    Trained trained(four_layers());
    trained.checkpoint({3}, mode);
    Tensor y_BSE;
    trained.checkpointing->observe({[&](int, const Tensor& y) { y_BSE = y; }, {}});
    (void)trained.model->forward(torch::zeros({1, kLength}, torch::kLong));
    const std::size_t wanted = mode == "nested" ? 16 : 0;
    EXPECT_EQ(nested_parameters(*y_BSE.grad_fn()).size(), wanted);
  }
}

TEST(Checkpoint, PausedLayersRunPlainly) {
  Trained trained(four_layers());
  trained.checkpoint({0, 1, 2, 3}, "nested");
  trained.checkpointing->pause(true);
  expect_same(Trained(four_layers()).gradients(), trained.gradients(), "paused");
  for (const RouteCount& count : trained.routes.counts()) EXPECT_NE(count.seam, "checkpoint");
}

}  // namespace
}  // namespace nsa::testing
