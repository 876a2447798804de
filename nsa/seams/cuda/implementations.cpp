#include "nsa/seams/cuda/cuda.h"
#include "nsa/seams/cuda/layer.h"
#include "nsa/seams/cuda/steps.h"

namespace nsa::cuda {
namespace {

void install_attention(AttentionSeams& seams, const BackEnd& back_end) {
  seams.attention = [back_end, table = reference::make_rope_table()](
                        const SeamContext& context,
                        const AttentionSeams& parts,
                        const AttentionWeights& weights,
                        const Tensor& x_BSE) {
    return attention(back_end, context, parts, weights, *table, x_BSE);
  };
  seams.takes_documents = true;
}

void install_compress(AttentionSeams& seams, const BackEnd& back_end) {
  seams.compress = [back_end](const SeamContext& context,
                              const Tensor& raw_BGSD,
                              Pooled what,
                              const PhiWeights& weights) {
    return compress(back_end, context, raw_BGSD, what, weights);
  };
}

void install_score(AttentionSeams& seams, const BackEnd& back_end) {
  seams.score = [back_end](const SeamContext& context, const Tensor& q_BHSD, const Tensor& k_BGCD) {
    return score(back_end, context, q_BHSD, k_BGCD);
  };
}

void install_select(AttentionSeams& seams, const BackEnd& back_end) {
  seams.select = [back_end](const SeamContext& context, const Tensor& p_grp_BGSN) {
    return select(back_end, context, p_grp_BGSN);
  };
}

// attend_cmp or attend_win.
template <auto seam, kernels::Branch branch>
void install_attend(AttentionSeams& seams, const BackEnd& back_end) {
  seams.*seam = [back_end](const SeamContext& context,
                           const Tensor& q_BHSD,
                           const Tensor& k_BGKD,
                           const Tensor& v_BGKD) {
    return attend(back_end, context, branch, q_BHSD, k_BGKD, v_BGKD);
  };
}

void install_attend_sel(AttentionSeams& seams, const BackEnd& back_end) {
  seams.attend_sel = [back_end](const SeamContext& context,
                                const Tensor& q_BHSD,
                                const Tensor& k_BGSD,
                                const Tensor& v_BGSD,
                                const Tensor& blocks_BGSn) {
    constexpr auto kBranch = kernels::Branch::selected;
    return attend(back_end, context, kBranch, q_BHSD, k_BGSD, v_BGSD, blocks_BGSn);
  };
}

struct SeamRow {
  Part part;
  void (*install)(AttentionSeams&, const BackEnd&);
};

// In the order of kSeams.
constexpr std::array<SeamRow, kSeams.size()> kRows = {{
    {Part::whole_layer, install_attention},
    {Part::compress, install_compress},
    {Part::score, install_score},
    {Part::select, install_select},
    {Part::attend, install_attend<&AttentionSeams::attend_cmp, kernels::Branch::compressed>},
    {Part::attend, install_attend_sel},
    {Part::attend, install_attend<&AttentionSeams::attend_win, kernels::Branch::window>},
}};

// In the order of kNames.
constexpr std::array<BackEnd, kNames.size()> kBackEnds = {
    {{kNames[0], kernels::Family::automatic}, {kNames[1], kernels::Family::mma}}};

}  // namespace

std::vector<Implementation> implementations() {
  std::vector<Implementation> rows;
  for (const BackEnd& back_end : kBackEnds) {
    for (std::size_t i = 0; i < kSeams.size(); ++i) {
      const SeamRow& row = kRows[i];
      rows.push_back(
          {kSeams[i],
           back_end.name,
           [back_end, part = row.part](const ModelConfig& config, const Surroundings* where) {
             return unsupported(back_end, part, config, where);
           },
           [back_end, install = row.install](AttentionSeams& seams) { install(seams, back_end); }});
    }
  }
  return rows;
}

}  // namespace nsa::cuda
