// Laws that need no reference: causality, edges, limits that equal dense attention, chunks, ties, routes, far positions.

#include <algorithm>
#include <iostream>
#include <random>

#include <torch/csrc/autograd/autograd.h>

#include "nsa/base/error.h"
#include "nsa/seams/reference/reference.h"
#include "tests/model/support.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

// Small enough for seconds, and everything happens: blocks dropped, window cut, rows without compressed tokens.
ModelConfig law_config() {
  ModelConfig config;
  config.dim = 24;
  config.n_layers = 2;
  config.n_heads = 6;
  config.n_kv_groups = 2;
  config.d_k = 16;
  config.d_v = 12;
  config.l = 8;
  config.d = 4;
  config.l_sel = 16;
  config.n_sel = 4;
  config.w = 20;
  config.vocab_size = 37;
  return config;
}

Tensor dense_attention(const Tensor& q_BHSD, const Tensor& k_BGSD, const Tensor& v_BGSD) {
  const auto heads = q_BHSD.size(1) / k_BGSD.size(1);
  const auto k_BHSD = k_BGSD.repeat_interleave(heads, 1);
  const auto scores = q_BHSD.matmul(k_BHSD.transpose(2, 3)) / std::sqrt(double(q_BHSD.size(3)));
  const auto future = torch::ones({q_BHSD.size(2), q_BHSD.size(2)}, torch::kBool).triu(1);
  return scores.masked_fill(future, -INFINITY)
      .softmax(-1)
      .matmul(v_BGSD.repeat_interleave(heads, 1));
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return a.numel() == 0 ? 0.0 : (a - b).abs().max().item<double>();
}

struct BranchInputs {
  Tensor q_BHSD, k_BGSD, v_BGSD;
};

BranchInputs random_inputs(const ModelConfig& config, std::int64_t length, double scale = 1.0) {
  const auto options = torch::kDouble;
  return {torch::randn({2, config.n_heads, length, config.d_k}, options) * scale,
          torch::randn({2, config.n_kv_groups, length, config.d_k}, options),
          torch::randn({2, config.n_kv_groups, length, config.d_v}, options)};
}

class Laws : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);
    torch::manual_seed(7);
  }
  ModelConfig config_ = law_config();
  Routes routes_;
  SeamContext context_{config_, 0, routes_};
};

// Changing the suffix changes no bit of the prefix: the shapes are the same, and a key that may not be seen has the exact
// weight zero.
TEST_F(Laws, SuffixNeverReachesPrefix) {
  NsaLm model(config_, std::map<std::string, std::string>{}, routes_);
  spread_weights(*model, 0.4);
  for (const auto dtype : {torch::kDouble, torch::kFloat}) {
    model->to(dtype);
    const auto tokens_BS = torch::randint(config_.vocab_size, {2, 131}, torch::kLong);
    const auto logits = model->forward(tokens_BS);
    for (const std::int64_t cut : {1, 7, 8, 15, 16, 17, 48, 63, 64, 100, 130}) {
      auto changed = tokens_BS.clone();
      changed.slice(1, cut).copy_((changed.slice(1, cut) + 5).remainder(config_.vocab_size));
      const auto other = model->forward(changed);
      EXPECT_TRUE(torch::equal(logits.slice(1, 0, cut), other.slice(1, 0, cut))) << cut;
      EXPECT_FALSE(torch::equal(logits.slice(1, cut), other.slice(1, cut))) << cut;
    }
  }
}

TEST_F(Laws, WideWindowIsDense) {
  const auto in = random_inputs(config_, 67);
  config_.w = 67;
  const auto dense = dense_attention(in.q_BHSD, in.k_BGSD, in.v_BGSD);
  const auto wide = reference::attend_win(context_, in.q_BHSD, in.k_BGSD, in.v_BGSD);
  EXPECT_LE(largest_difference(wide, dense), 1e-14);
  config_.w = 66;
  const auto cut = reference::attend_win(context_, in.q_BHSD, in.k_BGSD, in.v_BGSD);
  EXPECT_LE(largest_difference(cut.slice(2, 0, 66), dense.slice(2, 0, 66)), 1e-14);
  EXPECT_GT(largest_difference(cut.slice(2, 66), dense.slice(2, 66)), 1e-4);
}

TEST_F(Laws, AllBlocksSelectedIsDense) {
  const auto in = random_inputs(config_, 67);
  config_.n_sel = 6;  // more than the five there are
  const auto scores_BGSN = torch::rand({2, 2, 67, config_.block_count(67)}, torch::kDouble);
  const auto blocks_BGSn = reference::select(context_, scores_BGSN);
  const auto all = reference::attend_sel(context_, in.q_BHSD, in.k_BGSD, in.v_BGSD, blocks_BGSn);
  EXPECT_LE(largest_difference(all, dense_attention(in.q_BHSD, in.k_BGSD, in.v_BGSD)), 1e-14);
}

// l = d = 1: each token is its own compressed token.
TEST_F(Laws, CompressionOfOneTokenIsDense) {
  const auto in = random_inputs(config_, 67);
  config_.l = 1;
  config_.d = 1;
  const auto k_BGCD = reference::compress(context_, in.k_BGSD, Pooled::key, {});
  const auto v_BGCD = reference::compress(context_, in.v_BGSD, Pooled::value, {});
  const auto o = reference::attend_cmp(context_, in.q_BHSD, k_BGCD, v_BGCD);
  EXPECT_LE(largest_difference(o, dense_attention(in.q_BHSD, in.k_BGSD, in.v_BGSD)), 1e-14);
}

TEST_F(Laws, OneHotGateIsTheBranch) {
  Attention layer = make_layer(config_, routes_);
  const auto x_BSE = torch::randn({2, 70, config_.dim}, torch::kDouble);
  for (std::size_t branch = 0; branch < 3; ++branch) {
    layer->set_gate_override(one_hot(branch));
    const auto trace = traced(layer, x_BSE);
    const auto o = branch == 0   ? trace.o_cmp_BHSD
                   : branch == 1 ? trace.o_sel_BHSD
                                 : trace.o_win_BHSD;
    const auto out = layer->named_parameters()["out.weight"];
    const auto wanted = o.transpose(1, 2).flatten(2).matmul(out.t());
    EXPECT_LE(largest_difference(trace.y_BSE, wanted), 1e-14) << branch;
  }
}

// The matrix product of another chunk length may sum in another order, so this holds within rounding, not in bits.
TEST_F(Laws, ChunkLengthChangesRoundingOnly) {
  const std::int64_t length = 101;
  auto in = random_inputs(config_, length);
  for (auto* leaf : {&in.q_BHSD, &in.k_BGSD, &in.v_BGSD}) leaf->requires_grad_();
  const auto run = [&](std::int64_t bytes) {
    const auto k_cmp = reference::compress(context_, in.k_BGSD, Pooled::key, {});
    const auto v_cmp = reference::compress(context_, in.v_BGSD, Pooled::value, {});
    const auto scores = reference::score(context_, in.q_BHSD, k_cmp, bytes);
    const auto blocks = reference::select(context_, scores, bytes);
    const auto sum =
        reference::attend_cmp(context_, in.q_BHSD, k_cmp, v_cmp, bytes) +
        reference::attend_sel(context_, in.q_BHSD, in.k_BGSD, in.v_BGSD, blocks, bytes) +
        reference::attend_win(context_, in.q_BHSD, in.k_BGSD, in.v_BGSD, bytes);
    auto results = torch::autograd::grad({sum.square().sum()}, {in.q_BHSD, in.k_BGSD, in.v_BGSD});
    results.push_back(sum.detach());
    results.push_back(scores);
    results.push_back(blocks.to(torch::kDouble));
    return results;
  };
  const auto whole = run(reference::kChunkBytes);
  for (const std::int64_t bytes : {1, 60'000, 200'000}) {  // one row, some rows, most rows
    const auto cut = run(bytes);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_LE(largest_difference(whole[i], cut[i]), 1e-14 * whole[i].abs().max().item<double>());
    }
  }
}

TEST_F(Laws, ThreadsChangeRoundingOnly) {
  NsaLm model(config_, std::map<std::string, std::string>{}, routes_);
  model->to(torch::kDouble);
  spread_weights(*model, 0.3);
  const auto tokens_BS = torch::randint(config_.vocab_size, {2, 131}, torch::kLong);
  const auto one = model->forward(tokens_BS);
  torch::set_num_threads(2);
  const auto two = model->forward(tokens_BS);
  torch::set_num_threads(1);
  EXPECT_LE(largest_difference(one, two), 1e-12 * one.abs().max().item<double>());
}

// Every length at which something begins or ends: finite, and of the right shape, forward and backward.
TEST_F(Laws, EveryEdgeLength) {
  Attention layer = make_layer(config_, routes_);
  for (const std::int64_t length : {1, 7, 8, 9, 15, 16, 17, 19, 20, 21, 40, 53}) {
    auto x_BSE = torch::randn({1, length, config_.dim}, torch::kDouble).requires_grad_();
    layer->zero_grad();
    const auto trace = traced(layer, x_BSE);
    trace.y_BSE.square().sum().backward();
    EXPECT_EQ(trace.k_cmp_BGCD.size(2), config_.compressed_len(length)) << length;
    EXPECT_EQ(trace.p_grp_BGSN.size(3), config_.block_count(length)) << length;
    EXPECT_EQ(trace.blocks_BGSn.size(3), config_.n_sel) << length;
    EXPECT_TRUE(trace.y_BSE.isfinite().all().item<bool>()) << length;
    EXPECT_TRUE(x_BSE.grad().isfinite().all().item<bool>()) << length;
    for (const auto& item : layer->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key() << " at " << length;
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key() << " " << length;
      const bool compressed = item.key() == "W_K_cmp.weight" || item.key() == "W_V_cmp.weight";
      if (compressed && length < config_.l) {
        EXPECT_EQ(item.value().grad().abs().max().item<double>(), 0.0) << item.key();
      }
    }
  }
}

// Rows before l-1 see no compressed token; a row whose blocks are all -1 sees no selected one. Large logits on purpose.
TEST_F(Laws, RowsWithoutKeysAreExactZeros) {
  for (const auto dtype : {torch::kDouble, torch::kFloat}) {
    auto in = random_inputs(config_, 33, 1e3);
    auto q = in.q_BHSD.to(dtype).requires_grad_();
    auto k = in.k_BGSD.to(dtype).requires_grad_();
    auto v = in.v_BGSD.to(dtype).requires_grad_();
    const auto o_cmp = reference::attend_cmp(context_,
                                             q,
                                             reference::compress(context_, k, Pooled::key, {}),
                                             reference::compress(context_, v, Pooled::value, {}));
    EXPECT_EQ(o_cmp.slice(2, 0, 7).abs().max().item<double>(), 0.0);
    EXPECT_GT(o_cmp.slice(2, 7, 8).abs().min().item<double>(), 0.0);
    const auto early = torch::autograd::grad({o_cmp.slice(2, 0, 7).sum()}, {q, k, v}, {}, true);
    for (const auto& gradient : early) EXPECT_EQ(gradient.abs().max().item<double>(), 0.0);

    auto blocks = torch::zeros({2, 2, 33, config_.n_sel}, torch::kLong);
    blocks.select(2, 5).fill_(-1);
    const auto o_sel = reference::attend_sel(context_, q, k, v, blocks);
    EXPECT_EQ(o_sel.select(2, 5).abs().max().item<double>(), 0.0);
    for (const auto& gradient : torch::autograd::grad({o_sel.square().sum()}, {q, k, v})) {
      EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    }
  }
}

// Ranks by a stable sort: what (score descending, index ascending) says, written plainly.
Tensor blocks_by_sorting(const ModelConfig& config, const Tensor& scores_SN) {
  auto blocks = torch::full({scores_SN.size(0), config.n_sel}, -1, torch::kLong);
  for (std::int64_t t = 0; t < scores_SN.size(0); ++t) {
    const auto current = t / config.l_sel;
    std::vector<std::int64_t> taken;
    std::vector<std::pair<double, std::int64_t>> candidates;
    for (std::int64_t j = 0; j <= current; ++j) {
      if (j < config.init_blocks || j > current - config.local_blocks) {
        taken.push_back(j);
      } else if ((j + 1) * config.l_sel <= t + 1) {
        candidates.emplace_back(-scores_SN[t][j].item<double>(), j);
      }
    }
    std::sort(candidates.begin(), candidates.end());
    for (const auto& candidate : candidates) {
      if (static_cast<std::int64_t>(taken.size()) == config.n_sel) break;
      taken.push_back(candidate.second);
    }
    std::sort(taken.begin(), taken.end());
    for (std::size_t i = 0; i < taken.size(); ++i)
      blocks[t][static_cast<std::int64_t>(i)] = taken[i];
  }
  return blocks;
}

TEST_F(Laws, TiesTakeTheLowerIndex) {
  config_.l_sel = 4;
  for (const std::int64_t levels : {1, 2, 3, 1000}) {  // 1: all scores equal
    for (const auto& [init, local, n] : {std::tuple{1, 2, 4}, {0, 1, 3}, {2, 1, 9}, {1, 3, 70}}) {
      config_.init_blocks = init;
      config_.local_blocks = local;
      config_.n_sel = n;
      const std::int64_t length = 263;
      const auto scores =
          torch::randint(levels, {1, 2, length, config_.block_count(length)}, torch::kLong)
              .to(torch::kFloat);
      const auto blocks = reference::select(context_, scores);
      for (int group = 0; group < 2; ++group) {
        EXPECT_TRUE(torch::equal(blocks[0][group], blocks_by_sorting(config_, scores[0][group])))
            << levels << " levels, n " << n;
      }
    }
  }
}

TEST_F(Laws, NanScoresPushOutNoForcedBlock) {
  const auto scores = torch::full({1, 2, 100, config_.block_count(100)}, NAN, torch::kDouble);
  const auto blocks = reference::select(context_, scores);
  const auto last = blocks[0][0][99];
  EXPECT_TRUE(torch::equal(last, torch::tensor({0, 1, 5, 6}, torch::kLong))) << last;
}

// Equal keys give bit-equal scores for every inner block, wherever it lies in the row.
TEST_F(Laws, EqualBlocksScoreEqualBits) {
  const std::int64_t length = 16 * 37;
  const auto q = torch::randn({1, config_.n_heads, length, config_.d_k});
  const auto k = torch::randn({1, config_.n_kv_groups, 1, config_.d_k})
                     .repeat({1, 1, config_.compressed_len(length), 1});
  const auto scores = reference::score(context_, q, k);
  const auto inner = scores.select(2, length - 1).slice(2, 1, 36);
  EXPECT_TRUE(torch::equal(inner, inner.slice(2, 0, 1).expand_as(inner)));
}

// p_grp sums to the number of heads of the group where any compressed token is visible: the map of Eq. 9 loses nothing.
TEST_F(Laws, ImportanceIsConserved) {
  const auto in = random_inputs(config_, 90);
  const auto scores = reference::score(
      context_, in.q_BHSD, reference::compress(context_, in.k_BGSD, Pooled::key, {}));
  const auto sums = scores.sum(-1);
  EXPECT_LE(largest_difference(sums.slice(2, 7), torch::full({2, 2, 83}, 3.0, torch::kDouble)),
            1e-14);
  EXPECT_EQ(sums.slice(2, 0, 7).abs().max().item<double>(), 0.0);
  EXPECT_FALSE(scores.requires_grad());
}

// Rotation keeps lengths, depends on the distance only, and `first` continues a sequence; also far out and in float32.
TEST_F(Laws, RopeIsARotationByPosition) {
  const auto table = reference::make_rope_table();
  const auto x = torch::randn({1, 2, 9, 16}, torch::kDouble);
  const auto near = reference::rope(context_, *table, x, 0);
  const auto far = reference::rope(context_, *table, x, 65527);
  EXPECT_LE(largest_difference(near.norm(2, -1), x.norm(2, -1)), 1e-14);
  const auto scores = [](const Tensor& z) { return z.matmul(z.transpose(2, 3)); };
  EXPECT_LE(largest_difference(scores(near), scores(far)), 1e-9);
  const auto tail = reference::rope(context_, *table, x.slice(2, 4), 4);
  EXPECT_TRUE(torch::equal(near.slice(2, 4), tail));
  const auto far_fp32 = reference::rope(context_, *table, x.to(torch::kFloat), 65527);
  EXPECT_LE(largest_difference(far_fp32.to(torch::kDouble), far), 1e-6);
}

TEST_F(Laws, RoutesCountWhatRan) {
  NsaLm model(config_, std::map<std::string, std::string>{}, routes_);
  bool called = false;
  model->attention(1)->seams().attend_win =
      [&](const SeamContext& context, const Tensor& q_BHSD, const Tensor&, const Tensor& v_BGSD) {
        called = true;
        const auto o = q_BHSD.slice(3, 0, 12) + v_BGSD.repeat_interleave(3, 1);
        context.routes.ran("attend_win", context.layer, "other", o);
        return o;
      };
  const auto tokens_BS = torch::randint(config_.vocab_size, {1, 40}, torch::kLong);
  next_token_loss(model->forward(tokens_BS), tokens_BS).backward();
  {
    const torch::NoGradGuard no_gradient;
    model->forward(tokens_BS);
  }
  EXPECT_TRUE(called);
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> found;
  for (const auto& count : routes_.counts()) {
    found[count.seam + std::to_string(count.layer) + count.implementation] = {count.forward,
                                                                              count.backward};
  }
  using Pair = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(found.size(), 25U);
  EXPECT_EQ(found["norm1reference"], Pair(4, 2));
  EXPECT_EQ(found["norm-1reference"], Pair(2, 1));
  EXPECT_EQ(found["mlp0reference"], Pair(2, 1));
  EXPECT_EQ(found["attention0reference"], Pair(2, 1));
  EXPECT_EQ(found["project0reference"], Pair(14, 7));
  EXPECT_EQ(found["attend_win0reference"], Pair(2, 1));
  EXPECT_EQ(found["attend_win1other"], Pair(2, 1));
  EXPECT_EQ(found.count("attend_win1reference"), 0U);
  EXPECT_EQ(found["rope0reference"], Pair(8, 4));
  EXPECT_EQ(found["compress0reference"], Pair(4, 2));
  EXPECT_EQ(found["score1reference"], Pair(2, 0));
  EXPECT_EQ(found["select1reference"], Pair(2, 0));
  EXPECT_EQ(found["gate1reference"], Pair(2, 1));
  EXPECT_EQ(found["attend_cmp1reference"], Pair(2, 1));
  EXPECT_EQ(found["attend_sel1reference"], Pair(2, 1));
}

TEST_F(Laws, UnknownRoutesAreRefusedByName) {
  const auto message = [&](const std::map<std::string, std::string>& route) {
    try {
      static_cast<void>(make_attention_seams(config_, route));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({{"attend_sel", "reference"}, {"data", "reference"}}), "");
  EXPECT_NE(message({{"attend_sell", "reference"}}).find("did you mean attend_sel?"),
            std::string::npos);
  EXPECT_NE(message({{"attend_sel", "sdpa"}}).find("no implementation 'sdpa'"), std::string::npos);
}

}  // namespace
}  // namespace nsa::testing
