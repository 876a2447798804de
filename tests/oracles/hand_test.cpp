// Cells small enough to be computed by hand.
#include <cmath>

#include <gtest/gtest.h>

#include "oracles/attention/attention.h"
#include "oracles/attention/block_scores.h"
#include "oracles/attention/compress.h"
#include "oracles/attention/rope.h"

namespace oracles {
namespace {

constexpr double kExact = 1e-15;

// One head; queries sqrt(2) x, so that the logits are x.x; keys x; values x_0 + 2 x_1; no rotation;
// windows of two tokens, one apart; blocks of two tokens; the first and the current block only.
AttentionConfig tiny_config() {
  AttentionConfig c;
  c.dim = 2;
  c.n_heads = c.n_kv_groups = 1;
  c.d_k = 2;
  c.d_v = 1;
  c.l = 2;
  c.d = 1;
  c.l_sel = 2;
  c.n_sel = 2;
  c.w = 2;
  c.local_blocks = 1;
  c.rope_scale = 1e30;
  c.gate_hidden = 1;
  return c;
}

Weights tiny_weights() {
  const double root = std::sqrt(2.0);
  Weights w;
  w["W_Q.weight"] = {{2, 2}, {root, 0, 0, root}};
  for (const char* branch : {"cmp", "sel", "win"}) {
    w[std::string("W_K_") + branch + ".weight"] = {{2, 2}, {1, 0, 0, 1}};
    w[std::string("W_V_") + branch + ".weight"] = {{1, 2}, {1, 2}};
  }
  w["out.weight"] = {{2, 1}, {3, -6}};
  w["gate.fc1.weight"] = zeros({1, 2});
  w["gate.fc1.bias"] = zeros({1});
  w["gate.fc2.weight"] = zeros({3, 1});
  w["gate.fc2.bias"] = zeros({3});
  return w;
}

// Values 1, 2, 3; logits of the last query 1, 1, 2.
const Tensor kTinyX{{1, 3, 2}, {1, 0, 0, 1, 1, 1}};

class Tiny : public ::testing::Test {
 protected:
  AttentionResult result_ = attention(tiny_config(), tiny_weights(), kTinyX);
  const double e_ = std::exp(1.0);
};

TEST_F(Tiny, CompressedTokensAreMeans) {
  EXPECT_EQ(result_.k_cmp.data, (std::vector<double>{0.5, 0.5, 0.5, 1}));
  EXPECT_EQ(result_.v_cmp.data, (std::vector<double>{1.5, 2.5}));
}

TEST_F(Tiny, CompressedBranch) {
  // Nothing at t = 0, the first token alone at t = 1, logits 1 and 1.5 at t = 2.
  const double p = 1 / (1 + std::exp(0.5));
  EXPECT_EQ(result_.o_cmp.data[0], 0);
  EXPECT_NEAR(result_.o_cmp.data[1], 1.5, kExact);
  EXPECT_NEAR(result_.o_cmp.data[2], 1.5 * p + 2.5 * (1 - p), 2 * kExact);
}

TEST_F(Tiny, BlockScores) {
  // The first compressed token lies in block 0, the second half in each.
  const double p = 1 / (1 + std::exp(0.5));
  EXPECT_EQ(result_.p_grp.shape, (Shape{1, 1, 3, 2}));
  EXPECT_EQ(result_.p_grp.data[0], 0);
  EXPECT_EQ(result_.p_grp.data[2], 1);
  EXPECT_EQ(result_.p_grp.data[3], 0);
  EXPECT_NEAR(result_.p_grp.data[4], p + (1 - p) / 2, kExact);
  EXPECT_NEAR(result_.p_grp.data[5], (1 - p) / 2, kExact);
}

TEST_F(Tiny, SelectedAndWindowBranch) {
  EXPECT_EQ(result_.blocks.data, (std::vector<std::int64_t>{0, -1, 0, -1, 0, 1}));
  EXPECT_EQ(result_.o_sel.data[0], 1);
  EXPECT_NEAR(result_.o_sel.data[2], (1 + 2 + 3 * e_) / (2 + e_), 2 * kExact);
  EXPECT_EQ(result_.o_win.data[0], 1);
  EXPECT_NEAR(result_.o_win.data[2], (2 + 3 * e_) / (1 + e_), 2 * kExact);
}

TEST_F(Tiny, GateAndOutput) {
  for (const double g : result_.gate.data) {
    EXPECT_NEAR(g, 1.0 / 3, kExact);
  }
  const double sum = result_.o_cmp.data[2] + result_.o_sel.data[2] + result_.o_win.data[2];
  EXPECT_NEAR(result_.y.data[4], sum, 1e-14);
  EXPECT_NEAR(result_.y.data[5], -2 * sum, 1e-14);
}

// One key: its probability is 1 whatever the query, so keys and queries have exactly no gradient,
// and the value's is gate * out^T dy = 1/3 (3 * 2 - 6 * 1) = 0 at dy = (2, 1), 1 at dy = (1, 0).
TEST(OneToken, Gradients) {
  const Tensor x{{1, 1, 2}, {1, 4}};
  const AttentionPass pass =
      attention_with_gradients(tiny_config(), tiny_weights(), x, {{1, 1, 2}, {1, 0}});
  EXPECT_EQ(pass.gradients.weights.at("W_K_sel.weight").data, (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(pass.gradients.weights.at("W_Q.weight").data, (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(pass.gradients.weights.at("W_V_cmp.weight").data, (std::vector<double>{0, 0}));
  const std::vector<double>& dv = pass.gradients.weights.at("W_V_win.weight").data;
  EXPECT_NEAR(dv[0], 1, kExact);
  EXPECT_NEAR(dv[1], 4, 4 * kExact);
}

TEST(Rope, TurnsPairsByTheirAngle) {
  AttentionConfig c = tiny_config();
  c.d_k = 4;
  c.rope_scale = 2;
  Tensor z{{2, 4}, {1, 0, 1, 0, 1, 0, 0, 1}};
  // Positions 0 and 3: angles 3/2 and 3/2 * 10000^(-2/4) = 0.015.
  rotate(z, c, {0, 3}, Turn::forward);
  const std::vector<double> wanted{
      1, 0, 1, 0, std::cos(1.5), std::sin(1.5), -std::sin(0.015), std::cos(0.015)};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(z.data[i], wanted[i], kExact) << i;
  }
  rotate(z, c, {0, 3}, Turn::backward);
  EXPECT_NEAR(z.data[7], 1, kExact);
}

TEST(Compress, ConvWeighsTokensOfAWindow) {
  AttentionConfig c = tiny_config();
  c.phi = Phi::conv;
  const Weights weights{{"phi_k_conv.weight", {{2, 1, 2}, {1, 10, 100, 1000}}}};
  const Tensor raw{{1, 1, 3, 2}, {1, 2, 3, 4, 5, 6}};
  const Tensor k = compress({c, weights, 1}, PhiOf::keys, raw);
  EXPECT_EQ(k.shape, (Shape{1, 1, 2, 2}));
  EXPECT_EQ(k.data, (std::vector<double>{31, 4200, 53, 6400}));
}

TEST(Compress, NoTokenBelowOneWindow) {
  AttentionConfig c = tiny_config();
  EXPECT_EQ(compress({c, {}, 1}, PhiOf::keys, zeros({1, 1, 1, 2})).shape, (Shape{1, 1, 0, 2}));
  EXPECT_EQ(compress({c, {}, 1}, PhiOf::keys, zeros({1, 1, 2, 2})).shape, (Shape{1, 1, 1, 2}));
}

std::vector<double> weights_of_block(const OverlapMap& map, std::int64_t block) {
  std::vector<double> weights;
  for (std::int64_t i = 0; i < map.tokens(); ++i) {
    for (const OverlapMap::Entry& entry : map.of(i)) {
      if (entry.block == block) {
        weights.push_back(entry.weight);
      }
    }
  }
  return weights;
}

TEST(OverlapMap, MultiplicitiesOfThePaper) {
  AttentionConfig c = tiny_config();
  c.l = 8;
  c.d = 4;
  c.l_sel = 16;
  c.eq9 = Eq9::overlap;
  EXPECT_EQ(weights_of_block(OverlapMap(c, 64), 1), (std::vector<double>{1, 2, 2, 2, 1}));
  c.eq9 = Eq9::fractional;
  EXPECT_EQ(weights_of_block(OverlapMap(c, 64), 1), (std::vector<double>{0.5, 1, 1, 1, 0.5}));
}

TEST(OverlapMap, ATokenThatCoversSeveralBlocks) {
  AttentionConfig c = tiny_config();
  c.l = 6;
  c.d = 2;
  c.l_sel = 2;
  const OverlapMap map(c, 8);  // tokens 0-5 and 2-7
  ASSERT_EQ(map.tokens(), 2);
  ASSERT_EQ(map.of(1).size(), 3u);
  EXPECT_EQ(map.of(1)[0].block, 1);
  EXPECT_NEAR(map.of(1)[2].weight, 1.0 / 3, kExact);
}

}  // namespace
}  // namespace oracles
