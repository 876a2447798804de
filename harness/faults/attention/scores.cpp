// Wrong block scores. Seen: probabilities normalised before the causal mask; the overlap map of Eq. 9 with the sign as
// printed, or summed to the right; scores rounded to bf16, or cubed in fp16 to sharpen them, before the best n are taken.
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

struct Scored {  // what the seam was given, and the right scores
  const nsa::SeamContext& seam;
  const Tensor& q_BHSD;
  const Tensor& k_cmp_BGCD;
  const Tensor& right_BGSN;
  const decltype(nsa::AttentionSeams::select)& select;
};

using ScoreLaw = Tensor (*)(const Scored&);

// Where scores differ but the same blocks are chosen, nothing shows.
Tensor with_scores(FaultContext& context, const Scored& at, ScoreLaw law) {
  const Tensor wrong_BGSN = law(at);
  const std::int64_t groups = at.right_BGSN.size(1);
  const Tensor shows_BGS = differing_rows(
      at.select(unseen(at.seam), wrong_BGSN), at.select(unseen(at.seam), at.right_BGSN), groups);
  const Tensor differs_BGS = differing_rows(wrong_BGSN, at.right_BGSN, groups);
  return replaced(strike(context, at.seam, differs_BGS, shows_BGS), wrong_BGSN, at.right_BGSN);
}

template <ScoreLaw kLaw>
void install_scores(FaultContext& context) {
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.score =
        [inner = seams.score, select = seams.select, &context](
            const nsa::SeamContext& seam, const Tensor& q_BHSD, const Tensor& k_cmp_BGCD) {
          const torch::NoGradGuard no_gradient;
          const Tensor right_BGSN = inner(seam, q_BHSD, k_cmp_BGCD);
          if (!context.holds_now() || k_cmp_BGCD.size(2) == 0) return right_BGSN;
          return with_scores(context, {seam, q_BHSD, k_cmp_BGCD, right_BGSN, select}, kLaw);
        };
  });
}

// ---- probabilities and the overlap map -----------------------------------------------------------

// [S,C]
Tensor visible_tokens(const Scored& at) {
  const nsa::ModelConfig& config = at.seam.config;
  const auto options = torch::dtype(torch::kLong).device(at.q_BHSD.device());
  const Tensor last_C = torch::arange(at.k_cmp_BGCD.size(2), options) * config.d + (config.l - 1);
  return last_C.le(query_positions(at.seam, at.q_BHSD, at.q_BHSD.size(2)));
}

// [B,G,S,C]: p_cmp summed over the group's heads, 0 for what is not visible; normalised over that too or not.
Tensor probabilities(const Scored& at, bool over_all) {
  const Tensor hidden_SC = visible_tokens(at).logical_not();
  Tensor logits_BHSC = scaled_logits(at.q_BHSD, at.k_cmp_BGCD);
  if (!over_all) logits_BHSC = logits_BHSC.masked_fill(hidden_SC, -1e30);
  const Tensor p_BHSC = logits_BHSC.softmax(-1).masked_fill(hidden_SC, 0.0);
  const std::int64_t groups = at.k_cmp_BGCD.size(1);
  return p_BHSC.unflatten(1, {groups, p_BHSC.size(1) / groups}).sum(2);
}

// [C,N]: block j takes the tokens (l'/d) j + m_sign m + n_sign n, m over the block's strides, n over a token's. Right: + and -.
Tensor overlap_map(const Scored& at, std::int64_t m_sign, std::int64_t n_sign) {
  const nsa::ModelConfig& config = at.seam.config;
  const std::int64_t tokens = at.k_cmp_BGCD.size(2);
  const std::int64_t blocks = at.right_BGSN.size(3);
  const double unit = config.eq9 == nsa::Eq9::overlap
                          ? 1.0
                          : static_cast<double>(config.d) / static_cast<double>(config.l);
  Tensor map_CN = torch::zeros({tokens, blocks}, torch::kDouble);
  for (std::int64_t j = 0; j < blocks; ++j) {
    for (std::int64_t m = 0; m < config.l_sel / config.d; ++m) {
      for (std::int64_t n = 0; n < config.l / config.d; ++n) {
        const std::int64_t i = config.l_sel / config.d * j + m_sign * m + n_sign * n;
        if (i >= 0 && i < tokens) map_CN[i][j] += unit;
      }
    }
  }
  return map_CN.to(at.right_BGSN.options());
}

Tensor block_scores(const Scored& at, bool over_all, std::int64_t m_sign, std::int64_t n_sign) {
  const Tensor p_BGSC = probabilities(at, over_all).to(at.right_BGSN.scalar_type());
  return torch::matmul(p_BGSC, overlap_map(at, m_sign, n_sign));
}

// ---- the laws ------------------------------------------------------------------------------------

Tensor over_future(const Scored& at) {
  return block_scores(at, true, 1, -1);
}

Tensor other_sign(const Scored& at) {
  return block_scores(at, false, -1, -1);
}

Tensor to_the_right(const Scored& at) {
  return block_scores(at, false, 1, 1);
}

Tensor in_bf16(const Scored& at) {
  return at.right_BGSN.to(torch::kBFloat16).to(at.right_BGSN.scalar_type());
}

Tensor cubed_in_fp16(const Scored& at) {
  const Tensor half_BGSN = at.right_BGSN.to(torch::kHalf);
  return (half_BGSN * half_BGSN * half_BGSN).to(at.right_BGSN.scalar_type());
}

}  // namespace

Faults faults_of_scores() {
  return {
      {"noncausal_pcmp",
       "the probabilities behind the block scores are normalised over future tokens too",
       kRowsOfLayers,
       install_scores<over_future>},
      {"eq9_sign",
       "the overlap map runs to the left of its block",
       kRowsOfLayers,
       install_scores<other_sign>},
      {"eq9_shift",
       "the overlap map is shifted right",
       kRowsOfLayers,
       install_scores<to_the_right>},
      {"score_bf16", "block scores are rounded to bf16", kRowsOfLayers, install_scores<in_bf16>},
      {"score_cubed_fp16",
       "block scores are cubed in fp16",
       kRowsOfLayers,
       install_scores<cubed_in_fp16>}};
}

}  // namespace harness
