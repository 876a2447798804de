// Stages of the attention layer a second time, written from the equations in float64 and rounded once: no chunks, no views of
// another layout, nothing shared with `reference`. They are slow, and for short sequences. A diagnosis puts one of them over
// whatever stands in its seam: a failure that is gone with it was in the code of that stage. Each counts itself as `by_hand`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nsa/seams/implementation.h"
#include "nsa/seams/seams.h"

namespace nsa::by_hand {

inline constexpr const char* kName = "by_hand";

using torch::Tensor;

Tensor compress(const SeamContext& context,
                const Tensor& raw_BGSD,
                Pooled what,
                const PhiWeights& weights);
Tensor score(const SeamContext& context, const Tensor& q_BHSD, const Tensor& k_cmp_BGCD);
Tensor select(const SeamContext& context, const Tensor& p_grp_BGSN);
Tensor attend_cmp(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGCD,
                  const Tensor& v_BGCD);
Tensor attend_sel(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD,
                  const Tensor& blocks_BGSn);
Tensor attend_win(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD);

// The rows of the registry.
[[nodiscard]] std::vector<Implementation> implementations();

// Whether `route`, implementations by seam, asks for this seam by hand.
[[nodiscard]] bool is_asked_for(const std::map<std::string, std::string>& route,
                                const std::string& seam);
// Those that `route` asks for, in the place of what stands in their seams.
void put_over(AttentionSeams& seams, const std::map<std::string, std::string>& route);

// ---- what several of them need ------------------------------------------------------------------------------------------

// Weights of the keys of each query, rows without keys all 0: [B,G,h,S,K], from q [B,H,S,D], k [B,G,K,D] and who sees whom,
// [B|1,G|1,S,K].
[[nodiscard]] Tensor weights_of_keys(const Tensor& q_BHSD,
                                     const Tensor& k_BGKD,
                                     const Tensor& sees_BGSK);
// [1,1,S,C]: the compressed tokens that have ended when the query comes.
[[nodiscard]] Tensor sees_compressed(const SeamContext& context,
                                     std::int64_t length,
                                     std::int64_t tokens,
                                     torch::Device device);

}  // namespace nsa::by_hand
