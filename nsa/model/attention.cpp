#include "nsa/model/attention.h"

#include "nsa/seams/fan_out.h"
#include "nsa/seams/sequential/sequential.h"

namespace nsa {
namespace {

std::vector<torch::Tensor*> tensors_of(AttentionWeights& w) {
  std::vector<torch::Tensor*> all = {
      &w.q, &w.k_cmp, &w.k_sel, &w.k_win, &w.v_cmp, &w.v_sel, &w.v_win, &w.out};
  for (PhiWeights* phi : {&w.phi_k, &w.phi_v}) {
    all.insert(all.end(), {&phi->conv, &phi->pe, &phi->fc1_weight, &phi->fc2_weight});
  }
  GateWeights& gate = w.gate;
  all.insert(
      all.end(),
      {&gate.fc1_weight, &gate.fc1_bias, &gate.fc2_weight, &gate.fc2_bias, &gate.proj_weight});
  return all;
}

// A layer's weights for each of so many documents: what these give to their gradients is rounded once.
std::vector<AttentionWeights> weights_of_each(AttentionWeights weights, std::int64_t documents) {
  std::vector<AttentionWeights> each(static_cast<std::size_t>(documents), weights);
  const std::vector<torch::Tensor*> shared = tensors_of(weights);
  for (std::size_t i = 0; i < shared.size(); ++i) {
    if (!shared[i]->defined()) continue;
    const std::vector<torch::Tensor> handed = fan_out(*shared[i], documents);
    for (std::size_t n = 0; n < each.size(); ++n) *tensors_of(each[n])[i] = handed[n];
  }
  return each;
}

}  // namespace

AttentionImpl::AttentionImpl(const ModelConfig& config,
                             int layer,
                             AttentionSeams seams,
                             Routes& routes)
    : config_(config), layer_(layer), seams_(std::move(seams)), routes_(routes) {
  const auto k_width = config.n_kv_groups * config.d_k;
  const auto v_width = config.n_kv_groups * config.d_v;
  W_Q_ = projection("W_Q", config.n_heads * config.d_k);
  W_K_sel_ = projection("W_K_sel", k_width);
  W_V_sel_ = projection("W_V_sel", v_width);
  W_K_win_ = projection("W_K_win", k_width);
  W_V_win_ = projection("W_V_win", v_width);
  W_K_cmp_ = projection("W_K_cmp", k_width);
  W_V_cmp_ = projection("W_V_cmp", v_width);
  const auto o_width = config.n_heads * config.d_v;
  out_ = register_module(
      "out", torch::nn::Linear(torch::nn::LinearOptions(o_width, config.dim).bias(false)));
  gate_ = register_module("gate", GateLayer(config));
  if (config.phi == Phi::conv) {
    phi_k_conv_ = register_module("phi_k_conv", PhiConv(config, config.d_k));
    phi_v_conv_ = register_module("phi_v_conv", PhiConv(config, config.d_v));
  } else if (config.phi == Phi::mlp) {
    phi_k_ = register_module("phi_k", PhiMlp(config, config.d_k));
    phi_v_ = register_module("phi_v", PhiMlp(config, config.d_v));
  }
}

torch::nn::Linear AttentionImpl::projection(const char* name, std::int64_t outputs) {
  const auto options = torch::nn::LinearOptions(config_.dim, outputs).bias(false);
  return register_module(name, torch::nn::Linear(options));
}

AttentionWeights AttentionImpl::weights() const {
  AttentionWeights weights;
  weights.q = W_Q_->weight;
  weights.k_cmp = W_K_cmp_->weight;
  weights.k_sel = W_K_sel_->weight;
  weights.k_win = W_K_win_->weight;
  weights.v_cmp = W_V_cmp_->weight;
  weights.v_sel = W_V_sel_->weight;
  weights.v_win = W_V_win_->weight;
  weights.out = out_->weight;
  weights.gate = gate_->weights();
  if (phi_k_conv_) {
    weights.phi_k = phi_k_conv_->weights();
    weights.phi_v = phi_v_conv_->weights();
  } else if (phi_k_) {
    weights.phi_k = phi_k_->weights();
    weights.phi_v = phi_v_->weights();
  }
  return weights;
}

torch::Tensor AttentionImpl::shown(const AttentionTrace& trace) const {
  if (tap_) tap_(trace);
  return trace.y_BSE;
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x_BSE) {
  return shown(attended(x_BSE));
}

AttentionTrace AttentionImpl::attended(const torch::Tensor& x_BSE) const {
  if (documents_ != nullptr && !seams_.takes_documents) return attended_apart(x_BSE);
  SeamContext of_batch = context();
  of_batch.documents = documents_.get();
  return seams_.attention(of_batch, seams_, weights(), x_BSE);
}

AttentionTrace AttentionImpl::attended_apart(const torch::Tensor& x_BSE) const {
  SeamContext of_document = context();
  const std::vector<AttentionWeights> weights_of = weights_of_each(weights(), documents_->count());
  auto next = weights_of.begin();
  return attend_documents(
      x_BSE, *documents_, [&](const torch::Tensor& x_1SE, std::int64_t document) {
        of_document.document = document;
        return seams_.attention(of_document, seams_, *next++, x_1SE);
      });
}

torch::Tensor AttentionImpl::prefill(const torch::Tensor& x_BSE, LayerCache& cache) {
  TORCH_CHECK(documents_ == nullptr, "packed documents are not decoded");
  SeamContext counting = context();
  Reads reads;
  counting.reads = &reads;
  const AttentionTrace trace = seams_.attention(counting, seams_, weights(), x_BSE);
  cache = cache_of(config_, trace);
  cache.reads = reads;
  return shown(trace);
}

torch::Tensor AttentionImpl::step(const torch::Tensor& x_B1E, LayerCache& cache) {
  return shown(sequential::step(context(), seams_, weights(), cache, x_B1E));
}

}  // namespace nsa
