// The stages that are written by hand against the reference: pooled tokens with their gradients, scores, and choices, at every edge
// length and of every form of phi and of the map; and that one put over a seam is what runs, whatever stood there.

#include "nsa/seams/by_hand/by_hand.h"

#include <torch/csrc/autograd/autograd.h>

#include "nsa/seams/reference/reference.h"
#include "tests/model/support.h"
#include "tests/model/variants.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

std::vector<std::int64_t> lengths_of(const ModelConfig& config) {
  return {1, config.l - 1, config.l, config.l + 1, config.l_sel, config.l_sel + 1, 37, 131};
}

Tensor drawn(std::int64_t heads, std::int64_t rows, std::int64_t width) {
  return torch::randn({2, heads, rows, width}, torch::kDouble);
}

PhiWeights phi_weights(const ModelConfig& config) {
  const std::int64_t width = config.d_k;
  const auto leaf = [](std::vector<std::int64_t> shape) {
    return torch::randn(shape, torch::kDouble).requires_grad_();
  };
  if (config.phi == Phi::conv) return {leaf({width, 1, config.l}), {}, {}, {}};
  if (config.phi == Phi::avg) return {};
  return {
      {}, leaf({config.l, width}), leaf({2 * width, config.l * width}), leaf({width, 2 * width})};
}

double largest(const Tensor& difference) {
  return difference.numel() == 0 ? 0.0 : difference.abs().max().item<double>();
}

TEST(ByHand, PoolsAsTheReferenceDoes) {
  torch::manual_seed(3);
  for (auto [name, config] : variants()) {
    for (const Phi phi : {Phi::avg, Phi::conv, Phi::mlp}) {
      config.phi = phi;
      for (const std::int64_t length : lengths_of(config)) {
        Routes routes;
        const SeamContext context{config, 0, routes};
        const PhiWeights weights = phi_weights(config);
        const Tensor raw = drawn(config.n_kv_groups, length, config.d_k).requires_grad_();
        const Tensor wanted = reference::compress(context, raw, Pooled::key, weights);
        const Tensor found = by_hand::compress(context, raw, Pooled::key, weights);
        ASSERT_EQ(found.sizes(), wanted.sizes()) << name << " " << length;
        EXPECT_LE(largest(found - wanted), 1e-12) << name << " " << length;
        const auto gradient = [&](const Tensor& of) {
          return torch::autograd::grad({of.sum()}, {raw}).front();
        };
        EXPECT_LE(largest(gradient(found) - gradient(wanted)), 1e-12) << name << " " << length;
      }
    }
  }
}

TEST(ByHand, ScoresAndChoosesAsTheReferenceDoes) {
  torch::manual_seed(4);
  for (auto [name, config] : variants()) {
    for (const Eq9 eq9 : {Eq9::fractional, Eq9::overlap}) {
      config.eq9 = eq9;
      for (const std::int64_t length : lengths_of(config)) {
        Routes routes;
        const SeamContext context{config, 0, routes};
        const Tensor q = drawn(config.n_heads, length, config.d_k);
        const Tensor k = drawn(config.n_kv_groups, config.compressed_len(length), config.d_k);
        const Tensor wanted = reference::score(context, q, k);
        const Tensor found = by_hand::score(context, q, k);
        ASSERT_EQ(found.sizes(), wanted.sizes()) << name << " " << length;
        EXPECT_LE(largest(found - wanted), 1e-12) << name << " " << length;
        // With ties, and with scores that are no numbers.
        Tensor coarse = torch::randint(0, 3, wanted.sizes(), torch::kDouble);
        coarse.masked_fill_(torch::rand(wanted.sizes()).lt(0.1), std::nan(""));
        for (const Tensor& scores : {wanted, coarse}) {
          EXPECT_TRUE(
              torch::equal(by_hand::select(context, scores), reference::select(context, scores)))
              << name << " " << length;
        }
      }
    }
  }
}

TEST(ByHand, IsWhatRunsWhateverStoodInTheSeam) {
  ModelConfig config = small_config();
  Routes routes;
  const SeamContext context{config, 0, routes};
  AttentionSeams seams = make_attention_seams(config, {});
  seams.select = [](const SeamContext&, const Tensor&) -> Tensor {
    throw std::runtime_error("the mistake");
  };
  by_hand::put_over(seams, {{"score", "reference"}, {"select", "by_hand"}});
  const Tensor scores = torch::rand({1, config.n_kv_groups, 70, config.block_count(70)});
  EXPECT_TRUE(torch::equal(seams.select(context, scores), reference::select(context, scores)));
  EXPECT_EQ(routes.counts().front().implementation, "by_hand");
}

}  // namespace
}  // namespace nsa::testing
