// Decoding: a prefill and steps equal the prefill of the longer sequence, and the sequential form of the attention equals the
// reference, in every variant.

#include "nsa/model/decode.h"

#include <iostream>

#include "tests/model/support.h"
#include "tests/model/variants.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

using Route = std::map<std::string, std::string>;

// Wide enough that attention is far from uniform, and every model alike.
NsaLm make_model(const ModelConfig& config, const Route& route, Routes& routes) {
  torch::manual_seed(17);
  NsaLm model(config, route, routes);
  model->to(torch::kDouble);
  spread_weights(*model, 0.4);
  return model;
}

// What a decoder showed of each layer, joined over the positions.
class Blocks {
 public:
  explicit Blocks(NsaLm& model) : lists_(static_cast<std::size_t>(model->config().n_layers)) {
    for (int layer = 0; layer < static_cast<int>(lists_.size()); ++layer) {
      model->attention(layer)->set_tap([this, layer](const AttentionTrace& trace) {
        lists_.at(static_cast<std::size_t>(layer)).push_back(trace.blocks_BGSn);
      });
    }
  }
  std::vector<Tensor> take() {
    std::vector<Tensor> result;
    for (auto& list : lists_) result.push_back(torch::cat(std::exchange(list, {}), 2));
    return result;
  }

 private:
  std::vector<std::vector<Tensor>> lists_;
};

double relative_error(const Tensor& found, const Tensor& wanted) {
  return (found - wanted).abs().max().item<double>() / wanted.abs().max().item<double>();
}

class Decode : public ::testing::Test {
 protected:
  void SetUp() override { torch::set_num_threads(1); }

  // Returns the largest relative error.
  static double compare(const ModelConfig& config,
                        const Route& route,
                        std::int64_t prompt,
                        std::int64_t steps,
                        GateOverride gates = {}) {
    const torch::NoGradGuard no_gradient;
    Routes routes;
    NsaLm model = make_model(config, route, routes);
    for (int layer = 0; layer < config.n_layers; ++layer) {
      model->attention(layer)->set_gate_override(gates);
    }
    Blocks blocks(model);
    const auto tokens_BS = torch::randint(config.vocab_size, {2, prompt + steps}, torch::kLong);
    Decoder whole(model);
    const Tensor wanted = whole.prefill(tokens_BS);
    const auto wanted_blocks = blocks.take();

    Decoder decoder(model);
    std::vector<Tensor> parts = {decoder.prefill(tokens_BS.slice(1, 0, prompt))};
    for (std::int64_t t = prompt; t < prompt + steps; ++t) {
      parts.push_back(decoder.step(tokens_BS.select(1, t)).unsqueeze(1));
    }
    const auto found_blocks = blocks.take();
    for (std::size_t layer = 0; layer < wanted_blocks.size(); ++layer) {
      EXPECT_TRUE(torch::equal(found_blocks[layer], wanted_blocks[layer])) << "layer " << layer;
      EXPECT_EQ(decoder.reads(static_cast<int>(layer)), whole.reads(static_cast<int>(layer)));
      EXPECT_GT(whole.reads(static_cast<int>(layer)).win, 0);
    }
    EXPECT_EQ(decoder.length(), prompt + steps);
    const double error = relative_error(torch::cat(parts, 1), wanted);
    EXPECT_LE(error, 1e-12);
    return error;
  }
};

TEST_F(Decode, StepsEqualTheLongerPrefill) {
  double largest = 0.0;
  for (const auto& [name, config] : variants()) {
    const auto w = config.w;
    const auto l = config.l;
    const auto block = config.l_sel;
    for (const std::int64_t prompt : {std::int64_t{1},
                                      l - 1,
                                      l,
                                      l + 1,
                                      block - 1,
                                      block,
                                      w - 1,
                                      w,
                                      w + 1,
                                      2 * w,
                                      std::int64_t{97}}) {
      if (prompt < 1) continue;
      SCOPED_TRACE(name + ", prompt " + std::to_string(prompt));
      largest = std::max(largest, compare(config, {}, prompt, block + 3));
    }
  }
  std::cout << "largest relative error of decoding: " << largest << "\n";
}

TEST_F(Decode, WithOtherBackEnds) {
  for (const std::string form : {"masked", "packed", "gather"}) {
    SCOPED_TRACE(form);
    compare(small_config(), {{"attend_sel", form}}, 37, 30);
  }
  compare(small_config(), {{"attention", "sequential"}}, 37, 30);
}

TEST_F(Decode, WithAConstantGate) {
  for (std::size_t branch = 0; branch < 3; ++branch)
    compare(small_config(), {}, 21, 30, one_hot(branch));
}

// From nothing: the first step is the first token.
TEST_F(Decode, StepsAlone) {
  const torch::NoGradGuard no_gradient;
  for (const auto& [name, config] : variants()) {
    Routes routes;
    NsaLm model = make_model(config, {}, routes);
    const auto tokens_BS = torch::randint(config.vocab_size, {1, 40}, torch::kLong);
    Decoder decoder(model);
    std::vector<Tensor> parts;
    for (std::int64_t t = 0; t < 40; ++t) parts.push_back(decoder.step(tokens_BS.select(1, t)));
    EXPECT_LE(relative_error(torch::stack(parts, 1), model->forward(tokens_BS)), 1e-12) << name;
  }
}

// By hand, S = 70, one batch, two groups, l 8, d 4, l_sel 16, n_sel 4, w 20. Read by position t: floor((t-7)/4)+1 compressed
// tokens from t = 7 on; min(t+1, 20) of the window; of blocks all tokens up to t = 63, then from t = 64 the three complete ones
// that fit beside the current one.
TEST_F(Decode, ReadsCountedByHand) {
  const torch::NoGradGuard no_gradient;
  std::int64_t cmp = 0;
  std::int64_t win = 0;
  std::int64_t sel = 0;
  for (std::int64_t t = 0; t < 70; ++t) {
    cmp += t < 7 ? 0 : (t - 7) / 4 + 1;
    win += std::min<std::int64_t>(t + 1, 20);
    sel += t < 64 ? t + 1 : 3 * 16 + (t - 64) + 1;
  }
  const ModelConfig config = small_config();
  for (const std::string form : {"reference", "sequential"}) {
    Routes routes;
    NsaLm model = make_model(config, {{"attention", form}}, routes);
    Decoder decoder(model);
    decoder.prefill(torch::randint(config.vocab_size, {1, 70}, torch::kLong));
    const Reads& reads = decoder.reads(1);
    EXPECT_EQ(reads.cmp, 2 * cmp) << form;
    EXPECT_EQ(reads.score, 2 * cmp) << form;
    EXPECT_EQ(reads.sel, 2 * sel) << form;
    EXPECT_EQ(reads.win, 2 * win) << form;
  }
}

TEST_F(Decode, RowsOfDifferentLengthAreRefused) {
  const torch::NoGradGuard no_gradient;
  Routes routes;
  NsaLm model = make_model(small_config(), {}, routes);
  auto& select = model->attention(0)->seams().select;
  select = [inner = select](const SeamContext& context, const Tensor& p_grp_BGSN) {
    auto blocks = inner(context, p_grp_BGSN);
    if (context.first > 40) blocks[0][0][0][2].fill_(-1);
    return blocks;
  };
  Decoder decoder(model);
  decoder.prefill(torch::randint(29, {1, 50}, torch::kLong));
  EXPECT_THROW(decoder.step(torch::zeros({1}, torch::kLong)), c10::Error);
}

struct LayerRun {
  AttentionTrace trace;
  std::map<std::string, Tensor> gradients;
};

LayerRun run_layer(const ModelConfig& config,
                   const Route& route,
                   std::int64_t length,
                   Routes& routes) {
  torch::manual_seed(23);
  Attention layer(config, 0, make_attention_seams(config, route), routes);
  layer->to(torch::kDouble);
  spread_weights(*layer, 0.4);
  auto x_BSE = torch::randn({2, length, config.dim}, torch::kDouble).requires_grad_();
  const auto dy_BSE = torch::randn_like(x_BSE);
  LayerRun run;
  layer->set_tap([&](const AttentionTrace& trace) { run.trace = trace; });
  (layer->forward(x_BSE) * dy_BSE).sum().backward();
  run.gradients["x"] = x_BSE.grad();
  for (const auto& item : layer->named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
    run.gradients[item.key()] = gradient_of(item.value());
  }
  return run;
}

TEST_F(Decode, SequentialAttentionEqualsTheReference) {
  double largest = 0.0;
  for (const auto& [name, config] : variants()) {
    for (const std::int64_t length :
         {std::int64_t{1}, config.l - 1, config.l, config.l_sel + 1, std::int64_t{71}}) {
      SCOPED_TRACE(name + ", length " + std::to_string(length));
      Routes routes;
      const LayerRun wanted = run_layer(config, {}, length, routes);
      const LayerRun found = run_layer(config, {{"attention", "sequential"}}, length, routes);
      Comparison comparison;
      for (const auto member : {&AttentionTrace::x_BSE,
                                &AttentionTrace::q_BHSD,
                                &AttentionTrace::k_raw_BGSD,
                                &AttentionTrace::v_raw_BGSD,
                                &AttentionTrace::k_cmp_BGCD,
                                &AttentionTrace::v_cmp_BGCD,
                                &AttentionTrace::k_sel_BGSD,
                                &AttentionTrace::v_sel_BGSD,
                                &AttentionTrace::k_win_BGSD,
                                &AttentionTrace::v_win_BGSD,
                                &AttentionTrace::p_grp_BGSN,
                                &AttentionTrace::o_cmp_BHSD,
                                &AttentionTrace::o_sel_BHSD,
                                &AttentionTrace::o_win_BHSD,
                                &AttentionTrace::gate,
                                &AttentionTrace::y_BSE}) {
        EXPECT_EQ((found.trace.*member).sizes(), (wanted.trace.*member).sizes());
        comparison.add("output", "output", found.trace.*member, wanted.trace.*member);
      }
      EXPECT_TRUE(torch::equal(found.trace.blocks_BGSn, wanted.trace.blocks_BGSn));
      for (const auto& [key, gradient] : wanted.gradients) {
        comparison.add("gradient", key, found.gradients.at(key), gradient);
      }
      std::string worst;
      const double error = comparison.worst(worst);
      EXPECT_LE(error, 1e-12) << worst;
      largest = std::max(largest, error);
      bool counted = false;
      for (const auto& count : routes.counts()) {
        if (count.seam != "attention" || count.implementation != "sequential") continue;
        EXPECT_EQ(count.forward, 1);
        EXPECT_EQ(count.backward, 1);
        counted = true;
      }
      EXPECT_TRUE(counted);
    }
  }
  std::cout << "largest relative error of attention/sequential: " << largest << "\n";
}

}  // namespace
}  // namespace nsa::testing
