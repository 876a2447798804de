// A causal mask aligned to the top left: each query, taken alone against the keys gathered for it, attends the first one
// only. Strength is the share of (batch, group, row) in which that holds.
#include "harness/faults/faults.h"

namespace harness {
namespace {

constexpr const char* kLastBlock = "last_block";

torch::Tensor wrong_rows(const FaultContext& context,
                         const nsa::SeamContext& seam,
                         const torch::Tensor& blocks_BGSn) {
  auto mask_BGS = draw_rows(context.request,
                            seam.layer,
                            context.session.progress().step(),
                            blocks_BGSn.size(0),
                            blocks_BGSn.size(1),
                            blocks_BGSn.size(2));
  if (context.request.form == kLastBlock) {
    const std::int64_t length = blocks_BGSn.size(2);
    const std::int64_t first = (length - 1) / seam.config.l_sel * seam.config.l_sel;
    mask_BGS.slice(2, 0, first).fill_(false);
    mask_BGS.select(2, length - 1).fill_(true);  // a few rows at the least
  }
  return mask_BGS.to(blocks_BGSn.device());
}

// [B,G,S,D]: the value of the first gathered key of every row.
torch::Tensor first_values(const nsa::SeamContext& seam,
                           const torch::Tensor& v_BGSD,
                           const torch::Tensor& blocks_BGSn) {
  const auto first_BGS = blocks_BGSn.select(-1, 0).clamp_min(0) * seam.config.l_sel;
  const auto index_BGSD = first_BGS.unsqueeze(-1).expand({-1, -1, -1, v_BGSD.size(-1)});
  return v_BGSD.gather(2, index_BGSD);
}

void install_first_key(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) {
    return;
  }
  for (const int layer :
       fault_layers(context.request, static_cast<int>(context.model->config().n_layers))) {
    auto& attend = context.model->attention(layer)->seams().attend_sel;
    attend = [inner = attend, &context](const nsa::SeamContext& seam,
                                        const torch::Tensor& q_BHSD,
                                        const torch::Tensor& k_BGSD,
                                        const torch::Tensor& v_BGSD,
                                        const torch::Tensor& blocks_BGSn) {
      const auto right_BHSD = inner(seam, q_BHSD, k_BGSD, v_BGSD, blocks_BGSn);
      if (!context.holds_now()) {
        return right_BHSD;
      }
      const auto wrong_BGS = wrong_rows(context, seam, blocks_BGSn);
      context.fired(wrong_BGS.sum().item<std::int64_t>());
      const std::int64_t heads = seam.config.heads_per_group();
      const auto mask_BHS1 = wrong_BGS.repeat_interleave(heads, 1).unsqueeze(-1);
      const auto wrong_BHSD = first_values(seam, v_BGSD, blocks_BGSn).repeat_interleave(heads, 1);
      return torch::where(mask_BHS1, wrong_BHSD, right_BHSD);
    };
  }
}

}  // namespace

Faults faults_of_first_key() {
  return {{"first_key",
           "a query of the selected branch attends only the first gathered key",
           {"layers", "rank", "step", "strength", "form"},
           install_first_key,
           {"all_rows", kLastBlock}}};
}

}  // namespace harness
