// Another one's weights. Seen: one pair of K/V projections for all three branches; values pooled with the filter of the keys; a
// head that is no longer tied to the embedding.
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using nsa::Projection;
using torch::Tensor;

// ---- shared_kv: the form is the parameter that is never used -------------------------------------

const std::vector<std::string> kParameters = {"W_K_sel", "W_V_sel", "W_K_cmp", "W_V_cmp"};

Projection unused_projection(const std::string& parameter) {
  if (parameter == "W_K_sel") return Projection::k_sel;
  if (parameter == "W_V_sel") return Projection::v_sel;
  return parameter == "W_K_cmp" ? Projection::k_cmp : Projection::v_cmp;
}

// [B,S,G*D] with `wrong` in the (batch, group, position) struck.
Tensor mixed(const Tensor& struck_BGS, const Tensor& wrong_BSR, const Tensor& right_BSR) {
  const std::int64_t width = right_BSR.size(2) / struck_BGS.size(1);
  const Tensor mask_BSR = struck_BGS.transpose(1, 2).repeat_interleave(width, 2);
  return torch::where(mask_BSR, wrong_BSR, right_BSR);
}

void install_shared(FaultContext& context) {
  const std::string parameter = fault_form(context.request, kParameters);
  const Projection unused = unused_projection(parameter);
  const bool keys = unused == Projection::k_sel || unused == Projection::k_cmp;
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.project = [inner = seams.project, unused, keys, &context](const nsa::SeamContext& seam,
                                                                    const Tensor& x_BSE,
                                                                    const Tensor& weight,
                                                                    Projection which) {
      if (which != unused || !context.holds_now()) return inner(seam, x_BSE, weight, which);
      const auto weights = context.model->attention(seam.layer)->weights();
      const Tensor& other = keys ? weights.k_win : weights.v_win;
      const auto all_BGS = torch::ones({x_BSE.size(0), seam.config.n_kv_groups, x_BSE.size(1)},
                                       torch::dtype(torch::kBool).device(x_BSE.device()));
      const Tensor struck_BGS = strike(context, seam, all_BGS);
      // Then the unused weights are not in the graph at all, as they would not be.
      if (context.request.strength >= 1.0) return inner(seam, x_BSE, other, which);
      return mixed(
          struck_BGS, inner(unseen(seam), x_BSE, other, which), inner(seam, x_BSE, weight, which));
    };
  });
}

// ---- phi_v_wrong ---------------------------------------------------------------------------------

void install_phi(FaultContext& context) {
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.compress = [inner = seams.compress, &context](const nsa::SeamContext& seam,
                                                        const Tensor& raw_BGSD,
                                                        nsa::Pooled what,
                                                        const nsa::PhiWeights& weights) {
      const Tensor right_BGCD = inner(seam, raw_BGSD, what, weights);
      const bool same = seam.config.phi == nsa::Phi::avg || seam.config.d_k != seam.config.d_v;
      if (what != nsa::Pooled::value || same || !context.holds_now()) return right_BGCD;
      const auto of_keys = context.model->attention(seam.layer)->weights().phi_k;
      const Tensor wrong_BGCD = inner(unseen(seam), raw_BGSD, what, of_keys);
      const Tensor differs_BGC = differing_rows(wrong_BGCD, right_BGCD, right_BGCD.size(1));
      return replaced(strike(context, seam, differs_BGC), wrong_BGCD, right_BGCD);
    };
  });
}

// ---- tied_copy -----------------------------------------------------------------------------------

void install_copy(FaultContext& context) {
  if (!context.model->config().tied_head || !fault_on_rank(context.request, context.rank)) return;
  context.fired();
  context.model->set_head_weight(context.model->head_weight().detach().clone());
}

}  // namespace

Faults faults_of_weights() {
  return {{"shared_kv",
           "a branch is given the keys or values of the window",
           {"layers", "rank", "step", "strength", "form"},
           install_shared,
           kParameters},
          {"phi_v_wrong",
           "phi pools values with the weights for keys",
           {"layers", "rank", "step", "strength"},
           install_phi},
          {"tied_copy",
           "the tied head is a copy of the embedding, made at the start",
           {"rank"},
           install_copy}};
}

}  // namespace harness
