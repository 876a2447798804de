#include "nsa/model/attention.h"

namespace nsa {

namespace {

// [B,S,heads*D] -> [B,heads,S,D]
torch::Tensor split_heads(const torch::Tensor& x_BSE, std::int64_t heads) {
  return x_BSE.unflatten(-1, {heads, x_BSE.size(-1) / heads}).transpose(1, 2);
}

// o = sum over the branches of gate * branch (arXiv 2502.11089 Eq. 5), heads concatenated: [B,S,H*D].
torch::Tensor mix_branches(const AttentionTrace& trace) {
  const auto groups = trace.gate_BGS3.size(1);
  const auto gated = [&](const torch::Tensor& o_BHSD, std::int64_t branch) {
    const auto o_BGhSD = o_BHSD.unflatten(1, {groups, o_BHSD.size(1) / groups});
    return o_BGhSD * trace.gate_BGS3.slice(3, branch, branch + 1).unsqueeze(2);
  };
  const auto o_BGhSD =
      gated(trace.o_cmp_BHSD, 0) + gated(trace.o_sel_BHSD, 1) + gated(trace.o_win_BHSD, 2);
  return o_BGhSD.flatten(1, 2).transpose(1, 2).flatten(2);
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
  gate_ = register_module("gate", GateMlp(config));
}

torch::nn::Linear AttentionImpl::projection(const char* name, std::int64_t outputs) {
  const auto options = torch::nn::LinearOptions(config_.dim, outputs).bias(false);
  return register_module(name, torch::nn::Linear(options));
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x_BSE) {
  const SeamContext context{config_, layer_, routes_};
  AttentionTrace trace;
  trace.layer = layer_;
  trace.x_BSE = x_BSE;
  trace.q_BHSD = seams_.rope(context, split_heads(W_Q_(x_BSE), config_.n_heads), 0);
  compressed_branch(context, trace);
  selected_branch(context, trace);
  window_branch(context, trace);
  trace.gate_BGS3 = seams_.gate(context, trace.q_BHSD, gate_->weights());
  trace.y_BSE = out_(mix_branches(trace));
  if (tap_) tap_(trace);
  return trace.y_BSE;
}

void AttentionImpl::compressed_branch(const SeamContext& context, AttentionTrace& trace) {
  const auto groups = config_.n_kv_groups;
  const auto k_BGSD = seams_.rope(context, split_heads(W_K_cmp_(trace.x_BSE), groups), 0);
  const auto v_BGSD = split_heads(W_V_cmp_(trace.x_BSE), groups);
  trace.k_cmp_BGCD = seams_.compress(context, k_BGSD, Pooled::key);
  trace.v_cmp_BGCD = seams_.compress(context, v_BGSD, Pooled::value);
  trace.o_cmp_BHSD = seams_.attend_cmp(context, trace.q_BHSD, trace.k_cmp_BGCD, trace.v_cmp_BGCD);
}

void AttentionImpl::selected_branch(const SeamContext& context, AttentionTrace& trace) {
  const auto groups = config_.n_kv_groups;
  trace.p_grp_BGSN = seams_.score(context, trace.q_BHSD, trace.k_cmp_BGCD);
  trace.blocks_BGSn = seams_.select(context, trace.p_grp_BGSN);
  const auto k_BGSD = seams_.rope(context, split_heads(W_K_sel_(trace.x_BSE), groups), 0);
  const auto v_BGSD = split_heads(W_V_sel_(trace.x_BSE), groups);
  trace.o_sel_BHSD = seams_.attend_sel(context, trace.q_BHSD, k_BGSD, v_BGSD, trace.blocks_BGSn);
}

void AttentionImpl::window_branch(const SeamContext& context, AttentionTrace& trace) {
  const auto groups = config_.n_kv_groups;
  const auto k_BGSD = seams_.rope(context, split_heads(W_K_win_(trace.x_BSE), groups), 0);
  const auto v_BGSD = split_heads(W_V_win_(trace.x_BSE), groups);
  trace.o_win_BHSD = seams_.attend_win(context, trace.q_BHSD, k_BGSD, v_BGSD);
}

}  // namespace nsa
