// Laws that need no reference values.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "oracles/linear.h"
#include "tests/oracles/naive.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

constexpr double kSumError = 1e-13;  // sums of some hundred terms of the order of one

// What belongs to a query, by name.
std::vector<std::pair<std::string, const Tensor*>> row_tensors(const AttentionResult& r) {
  return {{"q", &r.q},
          {"p_grp", &r.p_grp},
          {"margin", &r.margin},
          {"o_cmp", &r.o_cmp},
          {"o_sel", &r.o_sel},
          {"o_win", &r.o_win},
          {"gate", &r.gate},
          {"y", &r.y}};
}

// The elements of positions [0, end) of a tensor whose rows are its last but one dimension (or, for
// margin, the last): everything else unrolled.
std::vector<double> prefix(const Tensor& tensor, std::int64_t rows, std::int64_t end) {
  std::int64_t inner = tensor.shape.back();
  if (inner == rows && tensor.shape.size() == 3 && tensor.shape[2] == rows) {
    inner = 1;
  }
  std::vector<double> kept;
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    if (static_cast<std::int64_t>(i) / inner % rows < end) {
      kept.push_back(tensor.data[i]);
    }
  }
  return kept;
}

std::vector<AttentionConfig> all_variants(const AttentionConfig& base) {
  std::vector<AttentionConfig> variants;
  for (const Phi phi : {Phi::avg, Phi::conv, Phi::mlp}) {
    for (const Gate gate : {Gate::group_softmax, Gate::head_sigmoid}) {
      variants.push_back(base);
      variants.back().phi = phi;
      variants.back().gate = gate;
      variants.back().eq9 = phi == Phi::mlp ? Eq9::overlap : Eq9::fractional;
    }
  }
  return variants;
}

void expect_prefix_unmoved(const RandomLayer& layer,
                           const AttentionResult& before,
                           std::int64_t from) {
  RandomLayer moved = layer;
  for (std::int64_t b = 0; b < moved.x.shape[0]; ++b) {
    for (std::int64_t k = from * moved.config.dim; k < moved.length() * moved.config.dim; ++k) {
      moved.x.data[b * moved.length() * moved.config.dim + k] += 1 + static_cast<double>(k % 3);
    }
  }
  const AttentionResult after = attention(moved.config, moved.weights, moved.x);
  for (std::size_t i = 0; i < row_tensors(before).size(); ++i) {
    const auto [name, tensor] = row_tensors(before)[i];
    EXPECT_EQ(prefix(*tensor, layer.length(), from),
              prefix(*row_tensors(after)[i].second, layer.length(), from))
        << name << " before " << from;
  }
}

TEST(Laws, WhatComesLaterChangesNoBitOfWhatWasBefore) {
  Random random(1);
  for (const AttentionConfig& config : all_variants(dropping_layer(0).config)) {
    const RandomLayer layer(random, config, 2, 37);
    const AttentionResult before = attention(layer.config, layer.weights, layer.x);
    for (const std::int64_t from : {1, 3, 4, 7, 8, 18, 36}) {
      expect_prefix_unmoved(layer, before, from);
    }
  }
}

TEST(Laws, NoGradientReachesWhatComesLater) {
  const RandomLayer layer = dropping_layer(2);
  AttentionOptions options;
  options.rows = {20};
  const AttentionPass pass = attention_with_gradients(
      layer.config, layer.weights, layer.x, gather_rows(layer.dy, options.rows), options);
  for (std::int64_t t = 0; t < layer.length(); ++t) {
    const double value = pass.gradients.x.data[t * layer.config.dim];
    EXPECT_EQ(value == 0, t > 20) << t;
  }
}

TEST(Laws, AWindowAsLongAsTheSequenceIsDense) {
  RandomLayer layer = dropping_layer(3);
  for (const std::int64_t w : {layer.length(), std::int64_t{100000}}) {
    layer.config.w = w;
    const AttentionResult found = attention(layer.config, layer.weights, layer.x);
    const Tensor dense = naive_branch(
        layer.config,
        layer.weights,
        layer.x,
        found,
        "win",
        [](std::int64_t, std::int64_t, std::int64_t t, std::int64_t u) { return u <= t; });
    EXPECT_LT(largest_difference(found.o_win, dense), kSumError) << w;
  }
}

TEST(Laws, TheWindowHasExactlyWKeys) {
  RandomLayer layer = dropping_layer(4);
  for (const std::int64_t w : {1, 2, 6, 36}) {
    layer.config.w = w;
    const AttentionResult found = attention(layer.config, layer.weights, layer.x);
    const Tensor wanted =
        naive_branch(layer.config,
                     layer.weights,
                     layer.x,
                     found,
                     "win",
                     [w](std::int64_t, std::int64_t, std::int64_t t, std::int64_t u) {
                       return t - w < u && u <= t;
                     });
    EXPECT_LT(largest_difference(found.o_win, wanted), kSumError) << w;
  }
}

TEST(Laws, SelectingEveryBlockIsDense) {
  RandomLayer layer = dropping_layer(5);
  layer.config.n_sel = layer.config.block_count(layer.length());
  const AttentionResult found = attention(layer.config, layer.weights, layer.x);
  const Tensor dense = naive_branch(
      layer.config,
      layer.weights,
      layer.x,
      found,
      "sel",
      [](std::int64_t, std::int64_t, std::int64_t t, std::int64_t u) { return u <= t; });
  EXPECT_LT(largest_difference(found.o_sel, dense), kSumError);
}

TEST(Laws, TheSelectedBranchSeesItsBlocksOnly) {
  const RandomLayer layer = dropping_layer(6);
  const AttentionResult found = attention(layer.config, layer.weights, layer.x);
  const Tensor wanted =
      naive_branch(layer.config,
                   layer.weights,
                   layer.x,
                   found,
                   "sel",
                   [&](std::int64_t b, std::int64_t g, std::int64_t t, std::int64_t u) {
                     return u <= t && taken(found.blocks, b * 2 + g, t, u / layer.config.l_sel);
                   });
  EXPECT_LT(largest_difference(found.o_sel, wanted), kSumError);
}

TEST(Laws, TheCompressedBranchSeesCompleteWindowsOnly) {
  const RandomLayer layer = dropping_layer(7);
  const AttentionResult found = attention(layer.config, layer.weights, layer.x);
  const Tensor wanted =
      naive_branch(layer.config,
                   layer.weights,
                   layer.x,
                   found,
                   "cmp",
                   [&](std::int64_t, std::int64_t, std::int64_t t, std::int64_t i) {
                     return i * layer.config.d + layer.config.l - 1 <= t;
                   });
  EXPECT_LT(largest_difference(found.o_cmp, wanted), kSumError);
}

TEST(Laws, AOneHotGateIsTheBranch) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const RandomLayer layer = random_layer(seed);
    for (std::size_t k = 0; k < 3; ++k) {
      AttentionOptions options;
      options.gate_override = {0, 0, 0};
      options.gate_override->at(k) = 1;
      const AttentionResult r = attention(layer.config, layer.weights, layer.x, options);
      const Tensor& branch = k == 0 ? r.o_cmp : k == 1 ? r.o_sel : r.o_win;
      const Shape heads{layer.x.shape[0], layer.config.n_heads, layer.length(), layer.config.d_v};
      const Tensor y =
          linear(merge_heads(reshaped(branch, heads)), layer.weights.at("out.weight"), 1);
      EXPECT_LT(largest_difference(r.y, y), kSumError) << seed << " branch " << k;
    }
  }
}

// W -> o is linear in the weights of the values, and blocks do not depend on them.
TEST(Laws, BranchesAreLinearInTheirValues) {
  const RandomLayer layer = dropping_layer(8);
  Random random(80);
  const AttentionResult first = attention(layer.config, layer.weights, layer.x);
  for (const char* branch : {"cmp", "sel", "win"}) {
    const std::string name = std::string("W_V_") + branch + ".weight";
    Weights other = layer.weights;
    Weights sum = layer.weights;
    other[name] = random.tensor(other[name].shape, 1);
    for (std::size_t i = 0; i < sum[name].data.size(); ++i) {
      sum[name].data[i] = 2 * sum[name].data[i] - 3 * other[name].data[i];
    }
    const AttentionResult second = attention(layer.config, other, layer.x);
    const AttentionResult both = attention(layer.config, sum, layer.x);
    EXPECT_EQ(both.blocks.data, first.blocks.data);
    for (const auto member :
         {&AttentionResult::o_cmp, &AttentionResult::o_sel, &AttentionResult::o_win}) {
      Tensor wanted = first.*member;
      const bool own = (second.*member).data != (first.*member).data;
      for (std::size_t i = 0; own && i < wanted.data.size(); ++i) {
        wanted.data[i] = 2 * wanted.data[i] - 3 * (second.*member).data[i];
      }
      EXPECT_LT(largest_difference(both.*member, wanted), 10 * kSumError) << branch;
    }
  }
}

// Exchanges the two halves of the first dimension.
Tensor batch_swapped(const Tensor& tensor) {
  Tensor result = tensor;
  std::rotate(result.data.begin(), result.data.begin() + result.data.size() / 2, result.data.end());
  return result;
}

TEST(Laws, BatchesDoNotMeet) {
  const RandomLayer layer = dropping_layer(9);
  const AttentionPass first =
      attention_with_gradients(layer.config, layer.weights, layer.x, layer.dy);
  const AttentionPass second = attention_with_gradients(
      layer.config, layer.weights, batch_swapped(layer.x), batch_swapped(layer.dy));
  for (std::size_t i = 0; i < row_tensors(first.result).size(); ++i) {
    const auto [name, tensor] = row_tensors(first.result)[i];
    EXPECT_EQ(batch_swapped(*tensor).data, row_tensors(second.result)[i].second->data) << name;
  }
  EXPECT_EQ(batch_swapped(first.gradients.x).data, second.gradients.x.data);
}

// Rows [head * width, ...) of a matrix, heads 0 and 2 of each group of three exchanged.
Tensor heads_exchanged(const Tensor& weight, std::int64_t width, std::int64_t heads) {
  Tensor result = weight;
  const std::int64_t size = width * weight.shape[1];
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t from = head % 3 == 1 ? head : head / 3 * 3 + 2 - head % 3;
    std::copy_n(weight.data.begin() + from * size, size, result.data.begin() + head * size);
  }
  return result;
}

Tensor matrix_transposed(const Tensor& m) {
  Tensor result = zeros({m.shape[1], m.shape[0]});
  for (std::size_t i = 0; i < m.data.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / m.shape[1];
    const std::int64_t column = static_cast<std::int64_t>(i) % m.shape[1];
    result.data[column * m.shape[0] + row] = m.data[i];
  }
  return result;
}

TEST(Laws, HeadsOfAGroupMayBePermuted) {
  const RandomLayer layer = dropping_layer(10);
  const AttentionConfig& c = layer.config;
  Weights permuted = layer.weights;
  permuted["W_Q.weight"] = heads_exchanged(permuted["W_Q.weight"], c.d_k, c.n_heads);
  permuted["out.weight"] = matrix_transposed(
      heads_exchanged(matrix_transposed(permuted["out.weight"]), c.d_v, c.n_heads));
  const AttentionResult first = attention(c, layer.weights, layer.x);
  const AttentionResult second = attention(c, permuted, layer.x);
  EXPECT_EQ(first.blocks.data, second.blocks.data);
  EXPECT_LT(largest_difference(first.p_grp, second.p_grp), kSumError);
  EXPECT_LT(largest_difference(first.y, second.y), kSumError);
  EXPECT_GT(largest_difference(first.q, second.q), 0.1);
}

// The map distributes each compressed token over the blocks; so a row's scores add up to the number
// of heads, or to nothing before the first compressed token.
TEST(Laws, ScoresOfARowAddUpToTheNumberOfHeads) {
  const RandomLayer layer = dropping_layer(11);
  const AttentionResult found = attention(layer.config, layer.weights, layer.x);
  const std::int64_t blocks = found.p_grp.shape[3];
  for (std::int64_t place = 0; place < 2 * 2 * layer.length(); ++place) {
    double sum = 0;
    for (std::int64_t j = 0; j < blocks; ++j) {
      sum += found.p_grp.data[place * blocks + j];
    }
    EXPECT_NEAR(sum, place % layer.length() < layer.config.l - 1 ? 0 : 3, kSumError) << place;
  }
}

// With a constant input coordinate as the only value, every row that sees a key gives the constant.
TEST(Laws, ProbabilitiesOfARowAddUpToOne) {
  RandomLayer layer = dropping_layer(12);
  for (std::int64_t i = 0; i < 2 * layer.length(); ++i) {
    layer.x.data[i * layer.config.dim] = 1;
  }
  for (const char* branch : {"cmp", "sel", "win"}) {
    Tensor& weight = layer.weights[std::string("W_V_") + branch + ".weight"];
    weight = zeros(weight.shape);
    for (std::int64_t row = 0; row < weight.shape[0]; ++row) {
      weight.data[row * layer.config.dim] = 5;
    }
  }
  const AttentionResult found = attention(layer.config, layer.weights, layer.x);
  for (std::size_t i = 0; i < found.o_cmp.data.size(); ++i) {
    const auto t = static_cast<std::int64_t>(i) / layer.config.d_v % layer.length();
    EXPECT_NEAR(found.o_cmp.data[i], t < layer.config.l - 1 ? 0 : 5, kSumError);
    EXPECT_NEAR(found.o_sel.data[i] + found.o_win.data[i], 10, kSumError);
  }
}

// exp(1e6) is infinite, and so is the sum; the probabilities of such logits are not.
TEST(Laws, LogitsMayBeVeryLarge) {
  RandomLayer layer = dropping_layer(17);
  for (double& value : layer.weights["W_Q.weight"].data) {
    value *= 1e6;
  }
  const AttentionPass pass =
      attention_with_gradients(layer.config, layer.weights, layer.x, layer.dy);
  for (const double value : pass.result.y.data) {
    ASSERT_TRUE(std::isfinite(value));
  }
  for (const double value : pass.gradients.x.data) {
    ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(Laws, RowsWithoutKeysGiveExactZeros) {
  const RandomLayer layer = dropping_layer(13);
  AttentionOptions options;
  options.rows = {0, 1, 2};
  options.gate_override = {1, 0, 0};
  const AttentionPass pass = attention_with_gradients(
      layer.config, layer.weights, layer.x, gather_rows(layer.dy, options.rows), options);
  EXPECT_EQ(largest_difference(pass.result.y, zeros(pass.result.y.shape)), 0);
  EXPECT_EQ(largest_difference(pass.gradients.x, zeros(layer.x.shape)), 0);
}

void expect_same_bits(const AttentionPass& first, const AttentionPass& second) {
  for (std::size_t i = 0; i < row_tensors(first.result).size(); ++i) {
    const auto [name, tensor] = row_tensors(first.result)[i];
    EXPECT_EQ(tensor->data, row_tensors(second.result)[i].second->data) << name;
  }
  EXPECT_EQ(first.gradients.x.data, second.gradients.x.data);
  for (const auto& [name, gradient] : first.gradients.weights) {
    EXPECT_EQ(gradient.data, second.gradients.weights.at(name).data) << name;
  }
}

TEST(Laws, ThreadsChangeNoBit) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const RandomLayer layer = seed == 1 ? dropping_layer(14) : random_layer(seed);
    AttentionOptions options;
    options.threads = 1;
    const AttentionPass one =
        attention_with_gradients(layer.config, layer.weights, layer.x, layer.dy, options);
    for (const int threads : {0, 2, 3, 7}) {
      options.threads = threads;
      expect_same_bits(
          one, attention_with_gradients(layer.config, layer.weights, layer.x, layer.dy, options));
    }
  }
}

std::vector<double> rows_of(const Tensor& tensor,
                            std::int64_t all,
                            const std::vector<std::int64_t>& rows) {
  std::vector<double> kept;
  const std::int64_t inner =
      tensor.shape.size() == 3 && tensor.shape[2] == all ? 1 : tensor.shape.back();
  const std::int64_t outer = static_cast<std::int64_t>(tensor.data.size()) / (all * inner);
  for (std::int64_t i = 0; i < outer; ++i) {
    for (const std::int64_t row : rows) {
      const auto begin = tensor.data.begin() + (i * all + row) * inner;
      kept.insert(kept.end(), begin, begin + inner);
    }
  }
  return kept;
}

TEST(Laws, SomeRowsAreThoseRowsOfAll) {
  for (std::uint64_t seed = 15; seed < 25; ++seed) {
    const RandomLayer layer = seed == 15 ? dropping_layer(15) : random_layer(seed);
    AttentionOptions options;
    options.rows = {layer.length() / 3, layer.length() - 1};
    if (options.rows[0] == options.rows[1]) {
      continue;
    }
    const AttentionResult all = attention(layer.config, layer.weights, layer.x);
    const AttentionResult some = attention(layer.config, layer.weights, layer.x, options);
    for (std::size_t i = 0; i < row_tensors(all).size(); ++i) {
      const auto [name, tensor] = row_tensors(all)[i];
      EXPECT_EQ(rows_of(*tensor, layer.length(), options.rows), row_tensors(some)[i].second->data)
          << name << " seed " << seed;
    }
  }
}

// A wrong choice is replayed: the selected branch follows it, what decides the oracle's choice not.
TEST(Laws, ReplayAttendsToItsBlocksAndReportsTheOwn) {
  const RandomLayer layer = dropping_layer(16);
  const AttentionResult own = attention(layer.config, layer.weights, layer.x);
  AttentionOptions options;
  options.replay = own.blocks;
  for (std::int64_t place = 0; place < 4 * layer.length(); ++place) {
    // Block 1 where it can be seen, alone.
    std::int64_t* const row = options.replay->data.data() + place * layer.config.n_sel;
    std::fill(row, row + layer.config.n_sel, -1);
    row[0] = place % layer.length() >= layer.config.l_sel ? 1 : -1;
  }
  const AttentionResult replayed = attention(layer.config, layer.weights, layer.x, options);
  EXPECT_EQ(replayed.blocks.data, own.blocks.data);
  EXPECT_EQ(replayed.p_grp.data, own.p_grp.data);
  EXPECT_EQ(replayed.o_cmp.data, own.o_cmp.data);
  const Tensor wanted =
      naive_branch(layer.config,
                   layer.weights,
                   layer.x,
                   own,
                   "sel",
                   [&](std::int64_t, std::int64_t, std::int64_t t, std::int64_t u) {
                     return u <= t && u / layer.config.l_sel == 1;
                   });
  EXPECT_LT(largest_difference(replayed.o_sel, wanted), kSumError);
}

}  // namespace
}  // namespace oracles::testing
