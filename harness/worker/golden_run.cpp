#include "harness/worker/golden_run.h"

#include "harness/golden/golden_file.h"
#include "harness/worker/record/tensor_file.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/torch.h"
#include "nsa/train/optimizer.h"
#include "nsa/train/schedule.h"

namespace harness {
namespace {

using torch::Tensor;
using Results = std::vector<NamedTensor>;

Tensor real_tensor(const GoldenFile& file, const std::string& name) {
  const std::vector<double> values = file.finite_doubles(name);
  return torch::tensor(values, torch::kDouble).view(file.at(name).shape);
}

Tensor whole_tensor(const GoldenFile& file, const std::string& name) {
  const std::vector<std::int64_t> values = file.integers(name);
  return torch::tensor(values, torch::kLong).view(file.at(name).shape);
}

void load_weights(torch::nn::Module& module, const GoldenFile& file) {
  const torch::NoGradGuard no_gradient;
  module.to(torch::kDouble);
  for (auto& item : module.named_parameters()) {
    const std::string name = file.weight_prefix() + item.key();
    file.require_shape(name, item.value().sizes().vec());
    item.value().copy_(real_tensor(file, name));
  }
}

void add_gradients(const torch::nn::Module& module, const std::string& prefix, Results& results) {
  for (const auto& item : module.named_parameters()) {
    const Tensor& gradient = item.value().grad();
    results.push_back(
        {prefix + item.key(), gradient.defined() ? gradient : torch::zeros_like(item.value())});
  }
}

// Attends to the blocks of the file, and keeps the model's own choice.
void replay(nsa::Attention& layer, const Tensor& blocks_BGSn, Tensor& own) {
  layer->seams().select = [choose = layer->seams().select, blocks_BGSn, &own](
                              const nsa::SeamContext& context, const Tensor& p_grp_BGSN) {
    own = choose(context, p_grp_BGSN);
    return blocks_BGSn.defined() ? blocks_BGSn : own;
  };
}

Tensor usable_blocks(const GoldenFile& file) {
  const nsa::ModelConfig& model = file.config().model;
  if (!file.has("blocks")) return {};
  file.require_shape("blocks", {file.batch(), model.n_kv_groups, file.length(), model.n_sel});
  if (!unusable_blocks(model, file.length(), file.integers("blocks")).empty()) return {};
  return whole_tensor(file, "blocks");
}

// [B,H,...] -> [B,G,h,...]
Tensor by_group(const Tensor& tensor, const nsa::ModelConfig& model) {
  return tensor.unflatten(1, {model.n_kv_groups, model.heads_per_group()});
}

void add_stages(const nsa::AttentionTrace& trace, const nsa::ModelConfig& model, Results& results) {
  const bool by_head = model.gate == nsa::Gate::head_sigmoid;
  results = {{"q", by_group(trace.q_BHSD, model)},
             {"k_cmp", trace.k_cmp_BGCD},
             {"v_cmp", trace.v_cmp_BGCD},
             {"p_grp", trace.p_grp_BGSN.to(torch::kDouble)},
             {"o_cmp", by_group(trace.o_cmp_BHSD, model)},
             {"o_sel", by_group(trace.o_sel_BHSD, model)},
             {"o_win", by_group(trace.o_win_BHSD, model)},
             {"gate", by_head ? by_group(trace.gate, model) : trace.gate},
             {"y", trace.y_BSE}};
}

Results attention_results(const GoldenFile& file) {
  const nsa::ModelConfig& model = file.config().model;
  nsa::Routes routes;
  nsa::Attention layer(model, 0, nsa::make_attention_seams(model, {}), routes);
  load_weights(*layer, file);
  Tensor own_BGSn;
  replay(layer, usable_blocks(file), own_BGSn);
  Results results;
  layer->set_tap([&](const nsa::AttentionTrace& trace) { add_stages(trace, model, results); });
  const Tensor x_BSE = real_tensor(file, "x").requires_grad_();
  const Tensor y_BSE = layer->forward(x_BSE);
  layer->set_tap(nullptr);
  results.push_back({"blocks", own_BGSn});
  if (file.has("dy")) {
    y_BSE.backward(real_tensor(file, "dy"));
    add_gradients(*layer, "g.w.", results);
    results.push_back({"g.x", x_BSE.grad()});
  }
  const torch::NoGradGuard no_gradient;
  for (const auto& [name, gates] : {std::pair{"y_cmp", std::array{1.0, 0.0, 0.0}},
                                    std::pair{"y_sel", std::array{0.0, 1.0, 0.0}},
                                    std::pair{"y_win", std::array{0.0, 0.0, 1.0}}}) {
    layer->set_gate_override(gates);
    results.push_back({name, layer->forward(x_BSE)});
  }
  return results;
}

nsa::NsaLm load_model(const GoldenFile& file, nsa::Routes& routes) {
  nsa::NsaLm model(file.config().model, std::map<std::string, std::string>{}, routes);
  load_weights(*model, file);
  return model;
}

Results lm_results(const GoldenFile& file) {
  nsa::Routes routes;
  nsa::NsaLm model = load_model(file, routes);
  const Tensor tokens_BS = whole_tensor(file, "tokens");
  const Tensor logits_BSV = model->forward(tokens_BS);
  const Tensor loss = nsa::next_token_loss(logits_BSV, tokens_BS);
  loss.backward();
  Results results = {{"logits", logits_BSV}, {"loss", loss}};
  add_gradients(*model, "g.p.", results);
  return results;
}

Results train_results(const GoldenFile& file) {
  nsa::Routes routes;
  nsa::NsaLm model = load_model(file, routes);
  const nsa::OptimizerConfig& train = file.config().train.value();
  nsa::Optimizer optimizer(model->parameters(), train, nsa::Precision::fp64);
  const Tensor tokens_TBS = whole_tensor(file, "tokens");
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> rates;
  for (std::int64_t step = 1; step <= file.steps(); ++step) {
    const Tensor tokens_BS = tokens_TBS.select(0, step - 1);
    model->zero_grad();
    const Tensor loss = nsa::next_token_loss(model->forward(tokens_BS), tokens_BS);
    loss.backward();
    losses.push_back(loss.item<double>());
    norms.push_back(optimizer.step());
    rates.push_back(nsa::learning_rate(train, step));
  }
  Results results = {{"loss", torch::tensor(losses, torch::kDouble)},
                     {"grad_norm", torch::tensor(norms, torch::kDouble)},
                     {"lr", torch::tensor(rates, torch::kDouble)}};
  for (const auto& item : model->named_parameters()) {
    results.push_back({"p1." + item.key(), item.value()});
  }
  return results;
}

}  // namespace

void run_golden(const std::string& path, const std::string& out) {
  const GoldenFile file(path);
  const Results results = file.level() == GoldenLevel::attention ? attention_results(file)
                          : file.level() == GoldenLevel::lm      ? lm_results(file)
                                                                 : train_results(file);
  (void)write_tensors(out, results);
}

}  // namespace harness
