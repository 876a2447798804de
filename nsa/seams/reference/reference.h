// The reference implementation of every attention seam: plain ATen, differentiable by autograd, dtype and device of its
// inputs. It is the specification of the fast ones, so it is written to be read; it is chunked over queries so that no
// temporary of a layer is S x S. Each function counts itself in SeamContext::routes as "reference".
//
// Shape letters as in seams.h, and: P pairs of batch and group (B*G), T queries of one chunk, K keys a chunk can see.
#pragma once

#include <memory>

#include "nsa/seams/seams.h"

namespace nsa::reference {

using torch::Tensor;

// No temporary is much larger: small enough for a card beside the model, large enough that launches do not show.
inline constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

// The whole layer, by the other seams in order.
[[nodiscard]] AttentionTrace attention(const SeamContext& context,
                                       const AttentionSeams& seams,
                                       const AttentionWeights& weights,
                                       const Tensor& x_BSE);

// [B,S,heads*D] -> [B,heads,S,D]
[[nodiscard]] Tensor split_heads(const Tensor& x_BSE, std::int64_t heads);

// o = sum over the branches of gate * branch (arXiv 2502.11089 Eq. 5), heads concatenated: [B,S,H*d_v]. `gate` as the seam
// gate returns it.
[[nodiscard]] Tensor mix_branches(const Tensor& gate,
                                  const Tensor& o_cmp_BHSD,
                                  const Tensor& o_sel_BHSD,
                                  const Tensor& o_win_BHSD);

Tensor project(const SeamContext& context,
               const Tensor& x_BSE,
               const Tensor& weight,
               Projection which);

// Cosines and sines of all positions so far asked for, computed in float64. Thread-safe; owned by one layer's seams.
class RopeTable;
[[nodiscard]] std::shared_ptr<RopeTable> make_rope_table();
struct Angles {
  Tensor cos_SD;  // D: width / 2 pairs
  Tensor sin_SD;
};
// Of positions 0 .. length-1, as tensors with `options`.
[[nodiscard]] Angles angles(RopeTable& table,
                            const ModelConfig& config,
                            std::int64_t length,
                            const torch::TensorOptions& options,
                            std::int64_t width);

Tensor rope(const SeamContext& context, RopeTable& table, const Tensor& x_BHSD, std::int64_t first);

Tensor compress(const SeamContext& context,
                const Tensor& raw_BGSD,
                Pooled what,
                const PhiWeights& weights);

Tensor gate(const SeamContext& context,
            const Tensor& x_BSE,
            const Tensor& q_BHSD,
            const GateWeights& weights);
// The same from the mean query of each group [B,G,S,D], and not counted in the routes.
Tensor gate_of_means(const SeamContext& context,
                     const Tensor& x_BSE,
                     const Tensor& mean_BGSD,
                     const GateWeights& weights);

Tensor score(const SeamContext& context,
             const Tensor& q_BHSD,
             const Tensor& k_cmp_BGCD,
             std::int64_t chunk_bytes = kChunkBytes);

Tensor select(const SeamContext& context,
              const Tensor& p_grp_BGSN,
              std::int64_t chunk_bytes = kChunkBytes);

Tensor attend_cmp(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGCD,
                  const Tensor& v_BGCD,
                  std::int64_t chunk_bytes = kChunkBytes);

Tensor attend_sel(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD,
                  const Tensor& blocks_BGSn,
                  std::int64_t chunk_bytes = kChunkBytes);

Tensor attend_win(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD,
                  std::int64_t chunk_bytes = kChunkBytes);

}  // namespace nsa::reference
