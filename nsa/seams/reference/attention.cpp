#include "nsa/seams/fan_out.h"
#include "nsa/seams/reference/masked_attention.h"
#include "nsa/seams/reference/reference.h"

namespace nsa::reference {

Tensor split_heads(const Tensor& x_BSE, std::int64_t heads) {
  return x_BSE.unflatten(-1, {heads, x_BSE.size(-1) / heads}).transpose(1, 2);
}

Tensor mix_branches(const Tensor& gate,
                    const Tensor& o_cmp_BHSD,
                    const Tensor& o_sel_BHSD,
                    const Tensor& o_win_BHSD) {
  const auto sharing = gate.size(1);  // groups, or heads
  const Tensor wide_gate = wide(gate);
  const auto gated = [&](const Tensor& o_BHSD, std::int64_t branch) {
    const Tensor o_BGhSD = wide(o_BHSD).unflatten(1, {sharing, o_BHSD.size(1) / sharing});
    return o_BGhSD * wide_gate.slice(3, branch, branch + 1).unsqueeze(2);
  };
  const Tensor o_BGhSD = gated(o_cmp_BHSD, 0) + gated(o_sel_BHSD, 1) + gated(o_win_BHSD, 2);
  return o_BGhSD.to(o_cmp_BHSD.scalar_type()).flatten(1, 2).transpose(1, 2).flatten(2);
}

namespace {

// One forward of a layer: each member function is a part of its equations.
class Forward {
 public:
  Forward(const SeamContext& context, const AttentionSeams& seams, const AttentionWeights& weights)
      : context_(context), seams_(seams), weights_(weights) {}

  AttentionTrace run(const Tensor& x_BSE) {
    trace_.layer = context_.layer;
    trace_.x_BSE = x_BSE;
    x_of_ = fan_out(x_BSE, kProjections + 1);
    trace_.q_BHSD = rotated(weights_.q, Projection::q, context_.config.n_heads);
    q_of_ = fan_out(trace_.q_BHSD, kUsersOfQ);
    compressed_branch();
    selected_branch();
    window_branch();
    trace_.gate = seams_.gate(context_, x_of_[kProjections], q_of_[3], weights_.gate);
    trace_.y_BSE = torch::linear(
        mix_branches(trace_.gate, trace_.o_cmp_BHSD, trace_.o_sel_BHSD, trace_.o_win_BHSD),
        weights_.out);
    context_.routes.ran("attention", context_.layer, "reference", trace_.y_BSE);
    return std::move(trace_);
  }

 private:
  [[nodiscard]] Tensor projected(const Tensor& weight, Projection which, std::int64_t heads) const {
    return split_heads(
        seams_.project(context_, x_of_[static_cast<std::size_t>(which)], weight, which), heads);
  }
  [[nodiscard]] Tensor rotated(const Tensor& weight, Projection which, std::int64_t heads) const {
    return seams_.rope(context_, projected(weight, which, heads), context_.first);
  }

  void compressed_branch() {
    const auto groups = context_.config.n_kv_groups;
    trace_.k_raw_BGSD = rotated(weights_.k_cmp, Projection::k_cmp, groups);
    trace_.v_raw_BGSD = projected(weights_.v_cmp, Projection::v_cmp, groups);
    trace_.k_cmp_BGCD = seams_.compress(context_, trace_.k_raw_BGSD, Pooled::key, weights_.phi_k);
    trace_.v_cmp_BGCD = seams_.compress(context_, trace_.v_raw_BGSD, Pooled::value, weights_.phi_v);
    trace_.o_cmp_BHSD = seams_.attend_cmp(context_, q_of_[0], trace_.k_cmp_BGCD, trace_.v_cmp_BGCD);
  }

  void selected_branch() {
    const auto groups = context_.config.n_kv_groups;
    trace_.p_grp_BGSN = seams_.score(context_, trace_.q_BHSD, trace_.k_cmp_BGCD);
    trace_.blocks_BGSn = seams_.select(context_, trace_.p_grp_BGSN);
    trace_.k_sel_BGSD = rotated(weights_.k_sel, Projection::k_sel, groups);
    trace_.v_sel_BGSD = projected(weights_.v_sel, Projection::v_sel, groups);
    trace_.o_sel_BHSD = seams_.attend_sel(
        context_, q_of_[1], trace_.k_sel_BGSD, trace_.v_sel_BGSD, trace_.blocks_BGSn);
  }

  void window_branch() {
    const auto groups = context_.config.n_kv_groups;
    trace_.k_win_BGSD = rotated(weights_.k_win, Projection::k_win, groups);
    trace_.v_win_BGSD = projected(weights_.v_win, Projection::v_win, groups);
    trace_.o_win_BHSD = seams_.attend_win(context_, q_of_[2], trace_.k_win_BGSD, trace_.v_win_BGSD);
  }

  static constexpr std::size_t kProjections = 7;  // of x, in the order of Projection; then the gate
  static constexpr std::size_t kUsersOfQ = 4;     // cmp, sel, win, gate; scores pass no gradient on

  const SeamContext& context_;
  const AttentionSeams& seams_;
  const AttentionWeights& weights_;
  AttentionTrace trace_;
  std::vector<Tensor> x_of_;  // x for each of its users
  std::vector<Tensor> q_of_;
};

}  // namespace

AttentionTrace attention(const SeamContext& context,
                         const AttentionSeams& seams,
                         const AttentionWeights& weights,
                         const Tensor& x_BSE) {
  TORCH_CHECK(context.first == 0, "attention/reference begins at position 0, not ", context.first);
  return Forward(context, seams, weights).run(x_BSE);
}

}  // namespace nsa::reference
