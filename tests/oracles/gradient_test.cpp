// The hand-derived backward against finite differences of the forward, on random layers.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

// Fourth-order central differences: error of the order step^4 = 2e-15 from the curvature and
// 1e-16 / step = 5e-13 from rounding, each times numbers of the order of the loss; four more orders
// for layers that are steep.
constexpr double kStep = 2e-4;
constexpr double kGradientLimit = 1e-8;

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    sum += a.data[i] * b.data[i];
  }
  return sum;
}

Tensor moved(const Tensor& from, const Tensor& direction, double step) {
  Tensor to = from;
  for (std::size_t i = 0; i < to.data.size(); ++i) {
    to.data[i] += step * direction.data[i];
  }
  return to;
}

// d loss / d step, where `loss_at` moves something by its argument.
template <typename LossAt>
double slope(LossAt loss_at) {
  return (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) /
         (12 * kStep);
}

class Gradients : public ::testing::TestWithParam<int> {
 protected:
  // Blocks are constants of the differentiation.
  void check(const RandomLayer& layer, AttentionOptions options, const Tensor& dy) {
    if (!options.replay) {
      options.replay = attention(layer.config, layer.weights, layer.x, options).blocks;
    }
    const AttentionPass pass =
        attention_with_gradients(layer.config, layer.weights, layer.x, dy, options);
    const auto loss = [&](const Weights& weights, const Tensor& x) {
      return dot(attention(layer.config, weights, x, options).y, dy);
    };
    for (const auto& [name, weight] : layer.weights) {
      const Tensor v = random_.tensor(weight.shape, 1 / std::sqrt(weight.data.size()));
      Weights weights = layer.weights;
      const double wanted = slope([&, &name = name, &weight = weight](double step) {
        weights.at(name) = moved(weight, v, step);
        return loss(weights, layer.x);
      });
      expect_close(dot(pass.gradients.weights.at(name), v), wanted, name);
    }
    const Tensor v = random_.tensor(layer.x.shape, 1 / std::sqrt(layer.x.data.size()));
    const double wanted =
        slope([&](double step) { return loss(layer.weights, moved(layer.x, v, step)); });
    expect_close(dot(pass.gradients.x, v), wanted, "x");
  }

  void expect_close(double found, double wanted, const std::string& name) {
    EXPECT_NEAR(found, wanted, kGradientLimit * std::max(1.0, std::abs(wanted))) << name;
  }

  Random random_{static_cast<std::uint64_t>(GetParam()) + 1000};
};

TEST_P(Gradients, OfADefaultVariant) {
  Random random(GetParam());
  const AttentionConfig config = random_config(random);
  const RandomLayer layer(random, config, random.from(1, 2), random.from(1, 45));
  check(layer, {}, layer.dy);
}

TEST_P(Gradients, OfAnyVariant) {
  const RandomLayer layer = random_layer(GetParam());
  check(layer, {}, layer.dy);
}

TEST_P(Gradients, UnderAConstantGate) {
  const RandomLayer layer = random_layer(GetParam());
  AttentionOptions options;
  options.gate_override = {0.5, -1, 2};
  check(layer, options, layer.dy);
}

TEST_P(Gradients, OfSomeRows) {
  const RandomLayer layer = random_layer(GetParam());
  AttentionOptions options;
  for (std::int64_t t = 0; t < layer.length(); ++t) {
    if (random_.from(0, 2) == 0 || t + 1 == layer.length()) {
      options.rows.push_back(t);
    }
  }
  check(layer, options, gather_rows(layer.dy, options.rows));
}

TEST_P(Gradients, UnderReplayedBlocks) {
  const RandomLayer layer = random_layer(GetParam());
  const std::int64_t blocks = layer.config.block_count(layer.length());
  AttentionOptions options;
  options.replay = attention(layer.config, layer.weights, layer.x).blocks;
  const std::int64_t n_sel = layer.config.n_sel;
  for (auto row = options.replay->data.begin(); row != options.replay->data.end(); row += n_sel) {
    auto to = std::fill_n(row, n_sel, -1) - n_sel;
    for (std::int64_t block = 0; block < blocks && to != row + n_sel; ++block) {
      if (random_.from(0, 1) == 0) {
        *to++ = block;
      }
    }
  }
  check(layer, options, layer.dy);
}

INSTANTIATE_TEST_SUITE_P(Random, Gradients, ::testing::Range(0, 24));

// sum(y * dy) is linear in each branch output, in the gate and in the compressed values, so the
// gradients of those give it back when they meet their own tensors.
TEST(BranchGradients, GiveTheLossBack) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const RandomLayer layer = random_layer(seed);
    const auto [result, gradients] =
        attention_with_gradients(layer.config, layer.weights, layer.x, layer.dy);
    const double loss = dot(result.y, layer.dy);
    const double from_cmp = dot(gradients.o_cmp, result.o_cmp);
    const double from_all =
        from_cmp + dot(gradients.o_sel, result.o_sel) + dot(gradients.o_win, result.o_win);
    EXPECT_NEAR(from_all, loss, 1e-12 * std::max(1.0, std::abs(loss))) << seed;
    EXPECT_NEAR(dot(gradients.gate, result.gate), loss, 1e-12 * std::max(1.0, std::abs(loss)));
    EXPECT_NEAR(
        dot(gradients.v_cmp, result.v_cmp), from_cmp, 1e-12 * std::max(1.0, std::abs(from_cmp)));
  }
}

// Moving every key of a head's list by the same vector changes no probability: the gradients of the
// compressed keys that all rows see add up to zero where every row sees the same keys.
TEST(BranchGradients, OfCompressedKeysAddUpToZeroInOneRow) {
  const RandomLayer layer = dropping_layer(3);
  AttentionOptions options;
  options.rows = {layer.length() - 1};
  const AttentionPass pass = attention_with_gradients(
      layer.config, layer.weights, layer.x, gather_rows(layer.dy, options.rows), options);
  const Tensor& dk = pass.gradients.k_cmp;
  const std::int64_t tokens = dk.shape[2];
  double sum = 0;
  double size = 0;
  for (std::int64_t i = 0; i < tokens; ++i) {
    sum += dk.data[i * dk.shape[3]];
    size += std::abs(dk.data[i * dk.shape[3]]);
  }
  EXPECT_GT(size, 0);
  EXPECT_LT(std::abs(sum), 1e-13 * size);
}

}  // namespace
}  // namespace oracles::testing
