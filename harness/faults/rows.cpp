#include "harness/faults/rows.h"

#include <cmath>
#include <limits>

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

// One of the rows that are set, drawn.
void add_one_of(const FaultRequest& request, const Tensor& rows_BGS, Tensor& mask_BGS) {
  const Tensor places = rows_BGS.nonzero();
  const int drawn = draw_index(request.seed, "row that shows", static_cast<int>(places.size(0)));
  const Tensor place = places[drawn];
  mask_BGS[place[0].item<std::int64_t>()][place[1].item<std::int64_t>()]
          [place[2].item<std::int64_t>()] = true;
}

}  // namespace

Tensor strike(const FaultContext& context,
              const nsa::SeamContext& seam,
              const Tensor& differs_BGS,
              const Tensor& shows_BGS) {
  const Tensor differs = differs_BGS.to(torch::kCPU).contiguous();
  const Tensor shows = shows_BGS.to(torch::kCPU).contiguous();
  if (!shows.any().item<bool>()) return torch::zeros_like(differs_BGS);
  Tensor mask = differs.clone();
  const std::int64_t rows = mask.size(2);
  if (context.request.strength < 1.0) {
    const Tensor drawn_BGT = draw_rows(context.request,
                                       seam.layer,
                                       context.session.progress().step(),
                                       mask.size(0),
                                       mask.size(1),
                                       seam.first + rows);
    mask.logical_and_(drawn_BGT.slice(2, seam.first));
  }
  // Of a whole sequence: a token alone may well be right.
  if (rows > 1 && !mask.logical_and(shows).any().item<bool>())
    add_one_of(context.request, shows, mask);
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

Tensor scaled_logits(const Tensor& q_BHSD, const Tensor& k_BGKD) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_BHSD.size(3)));
  return torch::matmul(q_BHSD * scale, to_heads(k_BGKD, q_BHSD.size(1)).transpose(2, 3));
}

Tensor attend_over(const Attended& at, const Tensor& keys_BGSK) {
  const std::int64_t heads = at.q_BHSD.size(1);
  const Tensor hidden_BHSK = to_heads(keys_BGSK.logical_not(), heads);
  // Finite, so that a row without keys has finite gradients.
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const Tensor p_BHSK =
      scaled_logits(at.q_BHSD, at.k_BGKD).masked_fill(hidden_BHSK, kLowest).softmax(-1);
  return torch::matmul(p_BHSK, to_heads(at.v_BGKD, heads))
      .masked_fill(hidden_BHSK.all(-1, /*keepdim=*/true), 0.0);
}

}  // namespace harness
