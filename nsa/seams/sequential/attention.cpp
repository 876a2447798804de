#include "nsa/seams/sequential/sequential.h"

namespace nsa::sequential {
namespace {

using torch::Tensor;

// One member of all traces, joined along the positions.
Tensor joined(const std::vector<AttentionTrace>& traces,
              Tensor AttentionTrace::*member,
              std::int64_t dim) {
  std::vector<Tensor> parts;
  parts.reserve(traces.size());
  for (const auto& trace : traces) parts.push_back(trace.*member);
  return torch::cat(parts, dim);
}

// Early rows know of fewer blocks: the later ones have the score 0 there.
Tensor joined_scores(const ModelConfig& config, const std::vector<AttentionTrace>& traces) {
  const auto n_blocks = config.block_count(static_cast<std::int64_t>(traces.size()));
  std::vector<Tensor> parts;
  for (const auto& trace : traces) {
    const auto missing = n_blocks - trace.p_grp_BGSN.size(3);
    parts.push_back(torch::constant_pad_nd(trace.p_grp_BGSN, {0, missing}, 0.0));
  }
  return torch::cat(parts, 2);
}

AttentionTrace whole_of(const ModelConfig& config, const std::vector<AttentionTrace>& traces) {
  AttentionTrace whole;
  for (const auto member : {&AttentionTrace::q_BHSD,
                            &AttentionTrace::k_raw_BGSD,
                            &AttentionTrace::v_raw_BGSD,
                            &AttentionTrace::k_sel_BGSD,
                            &AttentionTrace::v_sel_BGSD,
                            &AttentionTrace::k_win_BGSD,
                            &AttentionTrace::v_win_BGSD,
                            &AttentionTrace::blocks_BGSn,
                            &AttentionTrace::o_cmp_BHSD,
                            &AttentionTrace::o_sel_BHSD,
                            &AttentionTrace::o_win_BHSD,
                            &AttentionTrace::gate}) {
    whole.*member = joined(traces, member, 2);
  }
  whole.k_cmp_BGCD = traces.back().k_cmp_BGCD;
  whole.v_cmp_BGCD = traces.back().v_cmp_BGCD;
  whole.p_grp_BGSN = joined_scores(config, traces);
  whole.y_BSE = joined(traces, &AttentionTrace::y_BSE, 1);
  return whole;
}

}  // namespace

AttentionTrace attention(const SeamContext& context,
                         const AttentionSeams& seams,
                         const AttentionWeights& weights,
                         const Tensor& x_BSE) {
  TORCH_CHECK(context.first == 0, "attention/sequential begins at position 0, not ", context.first);
  LayerCache cache;
  std::vector<AttentionTrace> traces;
  for (std::int64_t t = 0; t < x_BSE.size(1); ++t) {
    traces.push_back(step(context, seams, weights, cache, x_BSE.slice(1, t, t + 1)));
  }
  if (context.reads != nullptr) *context.reads += cache.reads;
  AttentionTrace trace = whole_of(context.config, traces);
  trace.layer = context.layer;
  trace.x_BSE = x_BSE;
  context.routes.ran("attention", context.layer, "sequential", trace.y_BSE);
  return trace;
}

}  // namespace nsa::sequential
