// The model against the golden tensors: every stage, all gradients, four training steps.

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "nsa/train/optimizer.h"
#include "nsa/train/schedule.h"
#include "tests/fakes/where.h"
#include "tests/model/support.h"

namespace nsa::testing {
namespace {

// The ceiling 64 sqrt(n) u for n ~ 10^3 terms is 2e-13; a layer chains some ten such operations whose gradients
// cancel. A perturbation of 1e-9 in one weight exceeds it. The golden tensors were made with the same ATen kernels (their
// pooled values are bit-equal to torch's, not to a loop's), so agreement far below it, even 0, says that the formulas are
// the same, and nothing about rounding: that is the oracle's part.
constexpr double kTolerance = 1e-10;

std::vector<std::string> golden_names(const std::string& level) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fakes::tree() + "/tests/golden")) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() == ".safetensors" && name.rfind(level + "_", 0) == 0) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

void load_weights(Attention& layer, const Golden& golden) {
  for (const auto& item : layer->named_parameters()) {
    set_parameter(*layer, item.key(), golden.at("w." + item.key()));
  }
}

void compare_stages(const AttentionTrace& trace, const Golden& golden, Comparison& comparison) {
  const std::vector<std::pair<std::string, torch::Tensor>> stages = {{"q", trace.q_BHSD},
                                                                     {"k_cmp", trace.k_cmp_BGCD},
                                                                     {"v_cmp", trace.v_cmp_BGCD},
                                                                     {"p_grp", trace.p_grp_BGSN},
                                                                     {"o_cmp", trace.o_cmp_BHSD},
                                                                     {"o_sel", trace.o_sel_BHSD},
                                                                     {"o_win", trace.o_win_BHSD},
                                                                     {"gate", trace.gate},
                                                                     {"y", trace.y_BSE}};
  for (const auto& [name, found] : stages) comparison.add(name, name, found, golden.at(name));
}

void compare_branches(Attention& layer,
                      const torch::Tensor& x_BSE,
                      const Golden& golden,
                      Comparison& comparison) {
  for (const std::string branch : {"cmp", "sel", "win"}) {
    layer->set_gate_override(one_hot(branch == "cmp" ? 0 : branch == "sel" ? 1 : 2));
    const auto y_BSE = traced(layer, x_BSE).y_BSE;
    comparison.add("y", "y_" + branch, y_BSE, golden.at("y_" + branch));
  }
  layer->set_gate_override(std::nullopt);
}

double check_attention(const std::string& name) {
  const Golden golden(name);
  Routes routes;
  Attention layer = make_layer(golden.config, routes);
  load_weights(layer, golden);
  const auto x_BSE = golden.at("x").requires_grad_();
  const AttentionTrace trace = traced(layer, x_BSE);

  Comparison comparison;
  compare_stages(trace, golden, comparison);
  EXPECT_TRUE(torch::equal(trace.blocks_BGSn, golden.at("blocks"))) << name << ": blocks";
  (trace.y_BSE * golden.at("dy")).sum().backward();
  comparison.add("gradient", "g.x", gradient_of(x_BSE), golden.at("g.x"));
  for (const auto& item : layer->named_parameters()) {
    const std::string gradient = "g.w." + item.key();
    comparison.add("gradient", gradient, gradient_of(item.value()), golden.at(gradient));
  }
  compare_branches(layer, x_BSE, golden, comparison);

  std::string worst;
  const double error = comparison.worst(worst);
  EXPECT_LE(error, kTolerance) << name << ": " << worst;
  EXPECT_EQ(comparison.size(), 9U + 1U + golden.count("g.w.") + 3U);
  return error;
}

TEST(GoldenAttention, EveryStageAndGradient) {
  double largest = 0.0;
  int checked = 0;
  for (const auto& name : golden_names("attention")) {
    largest = std::max(largest, check_attention(name));
    ++checked;
  }
  EXPECT_EQ(checked, 26);
  std::cout << "largest relative error, " << checked << " attention files: " << largest << "\n";
}

NsaLm load_model(const Golden& golden, const std::string& prefix, Routes& routes) {
  NsaLm model(golden.config, std::map<std::string, std::string>{}, routes);
  model->to(torch::kDouble);
  for (const auto& item : model->named_parameters()) {
    set_parameter(*model, item.key(), golden.at(prefix + item.key()));
  }
  return model;
}

void check_lm(const std::string& name) {
  const Golden golden(name);
  Routes routes;
  NsaLm model = load_model(golden, "p.", routes);
  const auto tokens_BS = golden.at("tokens");
  const auto logits_BSV = model->forward(tokens_BS);
  const auto loss = next_token_loss(logits_BSV, tokens_BS);
  loss.backward();

  Comparison comparison;
  comparison.add("logits", "logits", logits_BSV, golden.at("logits"));
  comparison.add("loss", "loss", loss, golden.at("loss"));
  for (const auto& item : model->named_parameters()) {
    comparison.add(
        "gradient", item.key(), gradient_of(item.value()), golden.at("g.p." + item.key()));
  }
  std::string worst;
  const double error = comparison.worst(worst);
  EXPECT_LE(error, kTolerance) << name << ": " << worst;
  EXPECT_EQ(comparison.size(), 2U + golden.count("g.p."));
  std::cout << "largest relative error, " << name << ": " << error << "\n";
}

TEST(GoldenLm, LogitsLossAndGradients) {
  const auto names = golden_names("lm");
  EXPECT_EQ(names.size(), 2U);
  for (const auto& name : names) check_lm(name);
}

OptimizerConfig optimizer_of(const nlohmann::json& train) {
  OptimizerConfig config;
  config.lr = train.at("lr");
  config.beta1 = train.at("betas").at(0);
  config.beta2 = train.at("betas").at(1);
  config.eps = train.at("eps");
  config.weight_decay = train.at("weight_decay");
  config.max_norm = train.at("max_norm");
  config.warmup = train.at("warmup");
  config.total = train.at("total");
  return config;
}

TEST(GoldenTrain, FourSteps) {
  const Golden golden("train_2layers_4steps");
  Routes routes;
  NsaLm model = load_model(golden, "p0.", routes);
  const OptimizerConfig config = optimizer_of(golden.json.at("train"));
  Optimizer optimizer(model->parameters(), config);
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> rates;
  for (std::int64_t step = 1; step <= 4; ++step) {
    const auto tokens_BS = golden.at("tokens").select(0, step - 1);
    model->zero_grad();
    const auto loss = next_token_loss(model->forward(tokens_BS), tokens_BS);
    loss.backward();
    losses.push_back(loss.item<double>());
    norms.push_back(optimizer.step());
    rates.push_back(learning_rate(config, step));
  }

  Comparison comparison;
  comparison.add("loss", "loss", torch::tensor(losses, torch::kDouble), golden.at("loss"));
  comparison.add("norm", "grad_norm", torch::tensor(norms, torch::kDouble), golden.at("grad_norm"));
  comparison.add("lr", "lr", torch::tensor(rates, torch::kDouble), golden.at("lr"));
  for (const auto& item : model->named_parameters()) {
    comparison.add("parameter", item.key(), item.value(), golden.at("p1." + item.key()));
  }
  std::string worst;
  const double error = comparison.worst(worst);
  EXPECT_LE(error, kTolerance) << worst;
  EXPECT_EQ(comparison.size(), 3U + 35U);
  std::cout << "largest relative error, train_2layers_4steps: " << error << "\n";
}

}  // namespace
}  // namespace nsa::testing
