#include <algorithm>
#include <limits>

#include "nsa/seams/reference/masked_attention.h"
#include "nsa/seams/reference/reference.h"

namespace nsa::reference {

namespace {

// Sum over the heads of a group, one after the other: heads in the same order for every block, so that equal blocks get
// bit-equal scores (arXiv 2502.11089 Eq. 10).
Tensor sum_over_heads(const Tensor& p_PhTC) {
  Tensor sum_PTC = p_PhTC.select(1, 0);
  for (std::int64_t head = 1; head < p_PhTC.size(1); ++head) {
    sum_PTC = sum_PTC + p_PhTC.select(1, head);
  }
  return sum_PTC;
}

// Importance of each block: its compressed tokens, each weighted by the share of it that lies in the block (Eq. 9 for any
// l, d, l'; `fractional` divides by the token's length, `overlap` by the stride). Block j meets tokens j*l'/d - (l/d - 1) ..
// (j+1)*l'/d - 1, with the same weights for every j:
// they are added in this order for all blocks, so that equal blocks get bit-equal scores.
Tensor block_importance(const ModelConfig& config, const Tensor& p_PTC, std::int64_t n_blocks) {
  const auto stride = config.l_sel / config.d;
  const auto before = config.l / config.d - 1;
  const auto touching = stride + before;
  const auto padded_length = (n_blocks - 1) * stride + touching;
  const Tensor padded_PTC =
      torch::constant_pad_nd(p_PTC, {before, padded_length - before - p_PTC.size(2)}, 0.0);
  const auto unit = static_cast<double>(config.eq9 == Eq9::fractional ? config.l : config.d);
  Tensor sum_PTN = torch::zeros({p_PTC.size(0), p_PTC.size(1), n_blocks}, p_PTC.options());
  for (std::int64_t r = 0; r < touching; ++r) {
    const auto start = (r - before) * config.d;  // of the token, from the block's first position
    const auto shared = std::min(start + config.l, config.l_sel) - std::max<std::int64_t>(start, 0);
    const double weight = static_cast<double>(shared) / unit;
    sum_PTN.add_(padded_PTC.slice(2, r, r + (n_blocks - 1) * stride + 1, stride), weight);
  }
  return sum_PTN;
}

// Which blocks the queries of a chunk must take, and which they may take.
struct BlockRules {
  Tensor forced_TN;
  Tensor allowed_TN;  // forced, or complete and past
};

BlockRules block_rules(const ModelConfig& config,
                       Rows at,
                       std::int64_t n_blocks,
                       torch::Device device) {
  const Tensor j_N = positions(0, n_blocks, device);
  const Tensor t_T1 = positions(at.first, at.last, device).unsqueeze(1);
  const Tensor current_T1 = t_T1.div(config.l_sel, "floor");
  const Tensor past_TN = j_N.le(current_T1);
  const Tensor initial_TN = j_N.lt(config.init_blocks).logical_and(past_TN);
  const Tensor local_TN = j_N.gt(current_T1 - config.local_blocks).logical_and(past_TN);
  const Tensor forced_TN = initial_TN.logical_or(local_TN);
  const Tensor complete_TN = ((j_N + 1) * config.l_sel).le(t_T1 + 1);
  return {forced_TN, forced_TN.logical_or(complete_TN)};
}

// The first `n` blocks in the order (score descending, index ascending). torch::topk breaks ties at will, so it is asked
// only for the n-th score: taken is what lies above it, and of what equals it the first that still have room.
Tensor take_best(const Tensor& score_PTN, std::int64_t n) {
  const Tensor nth_PT1 = std::get<0>(score_PTN.topk(n)).slice(2, n - 1, n);
  const Tensor above_PTN = score_PTN.gt(nth_PT1);
  const Tensor equal_PTN = score_PTN.eq(nth_PT1);
  const Tensor room_PT1 = n - above_PTN.sum(2, /*keepdim=*/true);
  return above_PTN.logical_or(equal_PTN.logical_and(equal_PTN.cumsum(2).le(room_PT1)));
}

// Blocks of one chunk with queries at positions `at`, ascending, then -1.
Tensor choose(const ModelConfig& config, const Tensor& p_grp_PTN, Rows at) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto n_blocks = p_grp_PTN.size(2);
  const auto n = std::min(config.n_sel, n_blocks);
  const BlockRules rules = block_rules(config, at, n_blocks, p_grp_PTN.device());
  // A NaN orders below every score: it must not push out a forced block.
  const Tensor score_PTN = p_grp_PTN.nan_to_num(-1.0)
                               .masked_fill(rules.allowed_TN.logical_not(), -kInfinity)
                               .masked_fill(rules.forced_TN, kInfinity);
  const Tensor taken_PTN = take_best(score_PTN, n).logical_and(rules.allowed_TN);
  const Tensor j_N = positions(0, n_blocks, p_grp_PTN.device());
  const Tensor index_PTN = torch::where(taken_PTN, j_N, torch::full_like(j_N, n_blocks));
  const Tensor lowest_PTn =
      std::get<0>(index_PTN.topk(n, /*dim=*/2, /*largest=*/false, /*sorted=*/true));
  const Tensor blocks_PTn = lowest_PTn.masked_fill(lowest_PTn.eq(n_blocks), -1);
  return torch::constant_pad_nd(blocks_PTn, {0, config.n_sel - n}, -1);
}

}  // namespace

// p_cmp (Eq. 8) of the compressed branch, summed over the group and mapped to blocks.
Tensor score(const SeamContext& context,
             const Tensor& q_BHSD,
             const Tensor& k_cmp_BGCD,
             std::int64_t chunk_bytes) {
  const torch::NoGradGuard no_gradient;
  const auto& config = context.config;
  const auto groups = k_cmp_BGCD.size(1);
  const auto length = q_BHSD.size(2);
  const auto n_blocks = config.block_count(context.first + length);
  const Tensor q_PhSD = group_heads(q_BHSD, groups);
  const Tensor k_PCD = k_cmp_BGCD.flatten(0, 1);
  const auto row_bytes = q_BHSD.size(0) * static_cast<std::int64_t>(sizeof(double)) *
                         std::max(q_BHSD.size(1) * k_cmp_BGCD.size(2), groups * n_blocks);
  const auto one_chunk = [&](Rows rows) {
    const Rows at{rows.first + context.first, rows.last + context.first};
    const auto keys = visible_compressed(config, at.last - 1);
    const Tensor allowed_1TC = compressed_mask(config, at, keys, q_BHSD.device());
    if (context.reads != nullptr) context.reads->score += keys_read(allowed_1TC, k_PCD.size(0));
    const Tensor p_PhTC =
        probabilities(q_PhSD.slice(2, rows.first, rows.last), k_PCD.slice(1, 0, keys), allowed_1TC);
    const Tensor p_PTC = sum_over_heads(p_PhTC).masked_fill(allowed_1TC.logical_not(), 0.0);
    return block_importance(config, p_PTC, n_blocks);
  };
  const Tensor p_grp_PSN =
      join_chunks(length, rows_per_chunk(row_bytes, chunk_bytes), 1, one_chunk);
  context.routes.ran("score", context.layer, "reference");
  return p_grp_PSN.view({q_BHSD.size(0), groups, length, n_blocks});
}

// The n best blocks of each query (Eq. 11), forced ones first.
Tensor select(const SeamContext& context, const Tensor& p_grp_BGSN, std::int64_t chunk_bytes) {
  const torch::NoGradGuard no_gradient;
  const Tensor p_grp_PSN = p_grp_BGSN.flatten(0, 1);
  const auto row_bytes =
      p_grp_PSN.size(0) * p_grp_PSN.size(2) * static_cast<std::int64_t>(sizeof(std::int64_t));
  const Tensor blocks_PSn =
      join_chunks(p_grp_PSN.size(1), rows_per_chunk(row_bytes, chunk_bytes), 1, [&](Rows rows) {
        const Rows at{rows.first + context.first, rows.last + context.first};
        return choose(context.config, p_grp_PSN.slice(1, rows.first, rows.last), at);
      });
  context.routes.ran("select", context.layer, "reference");
  return blocks_PSn.view(
      {p_grp_BGSN.size(0), p_grp_BGSN.size(1), p_grp_BGSN.size(2), context.config.n_sel});
}

}  // namespace nsa::reference
