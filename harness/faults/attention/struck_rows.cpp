#include "harness/faults/attention/struck_rows.h"

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>

namespace harness {

using torch::Tensor;

void for_fault_layers(FaultContext& context, const std::function<void(nsa::AttentionSeams&)>& put) {
  if (!fault_on_rank(context.request, context.rank)) return;
  const int n_layers = static_cast<int>(context.model->config().n_layers);
  for (const int layer : fault_layers(context.request, n_layers)) {
    put(context.model->attention(layer)->seams());
  }
}

nsa::SeamContext unseen(const nsa::SeamContext& seam) {
  static nsa::Routes nobody_reads;  // hooks of a graph may count in it until the process ends
  return {seam.config, seam.layer, nobody_reads, seam.gate_override, seam.first};
}

namespace {

// Decided by the first pass of a layer and step for all of its passes. A law that held in other rows once the inputs of later
// positions are others would see the future.
struct Decision {
  bool holds = false;  // the law shows in some row
  Tensor added_BGS;    // the row without which it would not show
};

Tensor drawn_rows(const FaultContext& context,
                  const nsa::SeamContext& seam,
                  const Tensor& like_BGS) {
  if (context.request.strength >= 1.0) return torch::ones_like(like_BGS);
  const Tensor drawn_BGT = draw_rows(context.request,
                                     seam.layer,
                                     context.session.progress().step(),
                                     like_BGS.size(0),
                                     like_BGS.size(1),
                                     seam.first + like_BGS.size(2));
  return drawn_BGT.slice(2, seam.first);
}

Decision decide(const FaultRequest& request, const Tensor& mask_BGS, const Tensor& shows_BGS) {
  Decision decision;
  decision.holds = shows_BGS.any().item<bool>();
  decision.added_BGS = torch::zeros_like(mask_BGS);
  // Of a whole sequence: a token alone may well be right.
  const bool lacks_one = decision.holds && !mask_BGS.logical_and(shows_BGS).any().item<bool>();
  if (lacks_one && mask_BGS.size(2) > 1) {
    const Tensor places = shows_BGS.flatten().nonzero().flatten();
    const int drawn = draw_index(request.seed, "row that shows", static_cast<int>(places.size(0)));
    decision.added_BGS.view(-1)[places[drawn].item<std::int64_t>()] = true;
  }
  return decision;
}

Decision first_decision(const FaultContext& context,
                        const nsa::SeamContext& seam,
                        const Tensor& mask_BGS,
                        const Tensor& shows_BGS) {
  using Key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  static std::mutex mutex;  // a backward has threads of its own
  static std::map<Key, Decision> decisions;
  const std::int64_t step = context.session.progress().step();
  const Key key(seam.layer, step, seam.first, mask_BGS.size(0), mask_BGS.size(2));
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [place, is_new] = decisions.try_emplace(key);
  if (is_new) place->second = decide(context.request, mask_BGS, shows_BGS);
  return place->second;
}

}  // namespace

Tensor strike(const FaultContext& context,
              const nsa::SeamContext& seam,
              const Tensor& differs_BGS,
              const Tensor& shows_BGS) {
  const Tensor differs = differs_BGS.to(torch::kCPU).contiguous();
  const Tensor shows = shows_BGS.to(torch::kCPU).contiguous();
  Tensor mask = differs.logical_and(drawn_rows(context, seam, differs));
  const Decision decision = first_decision(context, seam, mask, shows);
  if (!decision.holds) return torch::zeros_like(differs_BGS);
  mask.logical_or_(decision.added_BGS.logical_and(differs));
  context.fired(mask.logical_and(shows).sum().item<std::int64_t>());
  return mask.to(differs_BGS.device());
}

Tensor strike(const FaultContext& context,
              const nsa::SeamContext& seam,
              const Tensor& differs_BGS) {
  return strike(context, seam, differs_BGS, differs_BGS);
}

Tensor differing_rows(const Tensor& a, const Tensor& b, std::int64_t groups) {
  const Tensor rows = a.detach().ne(b.detach()).any(-1);
  return rows.unflatten(1, {groups, rows.size(1) / groups}).any(2);
}

Tensor to_heads(const Tensor& x_BGSK, std::int64_t heads) {
  return x_BGSK.repeat_interleave(heads / x_BGSK.size(1), 1);
}

Tensor replaced(const Tensor& struck_BGS, const Tensor& wrong, const Tensor& right) {
  return torch::where(to_heads(struck_BGS.unsqueeze(-1), right.size(1)), wrong, right);
}

void change_attend(FaultContext& context,
                   nsa::AttentionSeams& seams,
                   const std::string& branch,
                   const AttendChange& change) {
  if (branch == "sel") {
    seams.attend_sel = [inner = seams.attend_sel, change, &context](const nsa::SeamContext& seam,
                                                                    const Tensor& q_BHSD,
                                                                    const Tensor& k_BGSD,
                                                                    const Tensor& v_BGSD,
                                                                    const Tensor& blocks_BGSn) {
      const Tensor right_BHSD = inner(seam, q_BHSD, k_BGSD, v_BGSD, blocks_BGSn);
      if (!context.holds_now()) return right_BHSD;
      return change({seam, "sel", q_BHSD, k_BGSD, v_BGSD, blocks_BGSn}, right_BHSD);
    };
    return;
  }
  auto& attend = branch == "cmp" ? seams.attend_cmp : seams.attend_win;
  attend = [inner = attend, branch, change, &context](const nsa::SeamContext& seam,
                                                      const Tensor& q_BHSD,
                                                      const Tensor& k_BGKD,
                                                      const Tensor& v_BGKD) {
    const Tensor right_BHSD = inner(seam, q_BHSD, k_BGKD, v_BGKD);
    if (!context.holds_now()) return right_BHSD;
    return change({seam, branch, q_BHSD, k_BGKD, v_BGKD, {}}, right_BHSD);
  };
}

Tensor query_positions(const nsa::SeamContext& seam, const Tensor& like, std::int64_t rows) {
  const auto options = torch::dtype(torch::kLong).device(like.device());
  return torch::arange(seam.first, seam.first + rows, options).unsqueeze(1);
}

Tensor key_positions(const Attended& at) {
  return torch::arange(at.k_BGKD.size(2), torch::dtype(torch::kLong).device(at.k_BGKD.device()));
}

Tensor keys_of_blocks(const Attended& at) {
  const Tensor block_K = key_positions(at).floor_divide(at.seam.config.l_sel);
  return at.blocks_BGSn.unsqueeze(-1).eq(block_K).any(-2);
}

Tensor right_keys(const Attended& at) {
  const Tensor t_S1 = query_positions(at.seam, at.q_BHSD, at.q_BHSD.size(2));
  const Tensor u_K = key_positions(at);
  if (at.branch == "sel") return keys_of_blocks(at).logical_and(u_K.le(t_S1));
  const nsa::ModelConfig& config = at.seam.config;
  const Tensor keys_SK = at.branch == "cmp" ? (u_K * config.d + (config.l - 1)).le(t_S1)
                                            : u_K.le(t_S1).logical_and(u_K.gt(t_S1 - config.w));
  return keys_SK.expand({at.k_BGKD.size(0), at.k_BGKD.size(1), -1, -1});
}

namespace {

// As the right law computes: sums over values of a narrow type are taken in float32.
Tensor widened(const Tensor& x) {
  const bool narrow = x.scalar_type() == torch::kBFloat16 || x.scalar_type() == torch::kHalf;
  return narrow ? x.to(torch::kFloat) : x;
}

}  // namespace

Tensor scaled_logits(const Tensor& q_BHSD, const Tensor& k_BGKD) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_BHSD.size(3)));
  return torch::matmul(widened(q_BHSD) * scale,
                       to_heads(widened(k_BGKD), q_BHSD.size(1)).transpose(2, 3));
}

Tensor weighted_values(const Tensor& p_BHSK, const Tensor& v_BGKD) {
  return torch::matmul(p_BHSK, to_heads(widened(v_BGKD), p_BHSK.size(1))).to(v_BGKD.scalar_type());
}

Tensor attend_over(const Attended& at, const Tensor& keys_BGSK) {
  const std::int64_t heads = at.q_BHSD.size(1);
  const Tensor hidden_BHSK = to_heads(keys_BGSK.logical_not(), heads);
  // Finite, so that a row without keys has finite gradients.
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const Tensor p_BHSK =
      scaled_logits(at.q_BHSD, at.k_BGKD).masked_fill(hidden_BHSK, kLowest).softmax(-1);
  return weighted_values(p_BHSK, at.v_BGKD).masked_fill(hidden_BHSK.all(-1, /*keepdim=*/true), 0.0);
}

}  // namespace harness
