#include <algorithm>
#include <cmath>
#include <limits>

#include "nsa/seams/reference/masked_attention.h"
#include "nsa/seams/reference/reference.h"
#include "nsa/train/autocast.h"

namespace nsa::reference {

Tensor wide(const Tensor& tensor) {
  const auto dtype = tensor.scalar_type();
  return dtype == torch::kBFloat16 || dtype == torch::kHalf ? tensor.to(torch::kFloat) : tensor;
}

std::int64_t keys_read(const Tensor& allowed_PTK, std::int64_t pairs) {
  return allowed_PTK.sum().item<std::int64_t>() * (pairs / allowed_PTK.size(0));
}

std::int64_t rows_per_chunk(std::int64_t row_bytes, std::int64_t chunk_bytes) {
  constexpr std::int64_t kMostRows = 256;
  return std::clamp(chunk_bytes / std::max<std::int64_t>(row_bytes, 1), std::int64_t{1}, kMostRows);
}

Tensor join_chunks(std::int64_t length,
                   std::int64_t rows,
                   std::int64_t dim,
                   const std::function<Tensor(Rows)>& one_chunk) {
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < length; first += rows) {
    parts.push_back(one_chunk({first, std::min(first + rows, length)}));
  }
  return torch::cat(parts, dim);
}

// Of a floating type, as a double.
double lowest_of(torch::ScalarType type) {
  switch (type) {
    case torch::kDouble: return std::numeric_limits<double>::lowest();
    case torch::kBFloat16: return static_cast<double>(std::numeric_limits<c10::BFloat16>::lowest());
    case torch::kHalf: return static_cast<double>(std::numeric_limits<c10::Half>::lowest());
    default: return static_cast<double>(std::numeric_limits<float>::lowest());
  }
}

// What was widened stays wide: autocast would take the products back to bfloat16.
AutocastScope no_autocast(const Tensor& like) {
  return {like.device().type(), false};
}

Tensor probabilities(const Tensor& q_PhTD, const Tensor& k_PKD, const Tensor& allowed_PTK) {
  const auto pairs = q_PhTD.size(0);
  const auto heads = q_PhTD.size(1);
  const auto rows = q_PhTD.size(2);
  const AutocastScope wide_products = no_autocast(q_PhTD);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_PhTD.size(3)));
  const Tensor q_PRD = (wide(q_PhTD) * scale).reshape({pairs, heads * rows, q_PhTD.size(3)});
  const Tensor scores_PhTK =
      torch::bmm(q_PRD, wide(k_PKD).transpose(1, 2)).view({pairs, heads, rows, k_PKD.size(1)});
  // The lowest number and not -inf: a row without keys must stay finite, forward and backward.
  const double lowest = lowest_of(scores_PhTK.scalar_type());
  return scores_PhTK.masked_fill(allowed_PTK.logical_not().unsqueeze(1), lowest).softmax(-1);
}

Tensor masked_attention(const Tensor& q_PhTD,
                        const Tensor& k_PKD,
                        const Tensor& v_PKD,
                        const Tensor& allowed_PTK) {
  const AutocastScope wide_products = no_autocast(q_PhTD);
  const Tensor p_PhTK = probabilities(q_PhTD, k_PKD, allowed_PTK);
  const Tensor o_PRD = torch::bmm(p_PhTK.flatten(1, 2), wide(v_PKD)).to(q_PhTD.scalar_type());
  const Tensor o_PhTD = o_PRD.view({q_PhTD.size(0), q_PhTD.size(1), q_PhTD.size(2), v_PKD.size(2)});
  const Tensor empty_PTK = allowed_PTK.any(-1, /*keepdim=*/true).logical_not();
  return o_PhTD.masked_fill(empty_PTK.unsqueeze(1), 0.0);
}

Tensor positions(std::int64_t start, std::int64_t end, torch::Device device) {
  return torch::arange(start, end, torch::dtype(torch::kLong).device(device));
}

Tensor group_heads(const Tensor& x_BHSD, std::int64_t groups) {
  return x_BHSD.reshape(
      {x_BHSD.size(0) * groups, x_BHSD.size(1) / groups, x_BHSD.size(2), x_BHSD.size(3)});
}

std::int64_t visible_compressed(const ModelConfig& config, std::int64_t last) {
  return config.compressed_len(last + 1);
}

Tensor compressed_mask(const ModelConfig& config,
                       Rows at,
                       std::int64_t keys,
                       torch::Device device) {
  const Tensor last_covered_K = positions(0, keys, device) * config.d + (config.l - 1);
  const Tensor t_T1 = positions(at.first, at.last, device).unsqueeze(1);
  return last_covered_K.le(t_T1).unsqueeze(0);
}

std::int64_t rows_over_keys(const Tensor& q_BHSD, std::int64_t keys, std::int64_t chunk_bytes) {
  const auto element =
      std::max<std::int64_t>(q_BHSD.element_size(), sizeof(float));  // as in wide()
  return rows_per_chunk(q_BHSD.size(0) * q_BHSD.size(1) * keys * element, chunk_bytes);
}

std::int64_t window_rows(const ModelConfig& config,
                         const Tensor& q_BHSD,
                         std::int64_t keys,
                         std::int64_t chunk_bytes) {
  const auto most_keys = std::min(keys, config.w + config.w / 4 + 64);
  // A chunk computes rows + w - 1 keys for each query: short chunks waste less, a quarter of w is short enough.
  return std::min(rows_over_keys(q_BHSD, most_keys, chunk_bytes),
                  std::max<std::int64_t>(config.w / 4, 64));
}

SeenKeys window_keys(const ModelConfig& config, Rows at, torch::Device device) {
  const auto first = std::max<std::int64_t>(at.first - config.w + 1, 0);
  const Tensor u_K = positions(first, at.last, device);
  const Tensor t_T1 = positions(at.first, at.last, device).unsqueeze(1);
  return {first, at.last, u_K.le(t_T1).logical_and(u_K.gt(t_T1 - config.w))};
}

namespace {

// Keys that the queries of a chunk can see at all, and which query sees which of them.
struct VisibleKeys {
  std::int64_t first = 0;
  std::int64_t last = 0;
  Tensor allowed_PTK;
};

// `visible` gets a chunk's rows and the same as positions. What is read is counted as the reads of `branch`.
Tensor attend(const Tensor& q_BHSD,
              const Tensor& k_BGSD,
              const Tensor& v_BGSD,
              std::int64_t rows,
              const SeamContext& context,
              std::int64_t Reads::*branch,
              const std::function<VisibleKeys(Rows, Rows)>& visible) {
  const auto groups = k_BGSD.size(1);
  const Tensor q_PhSD = group_heads(q_BHSD, groups);
  // Widened once for all chunks: their gradients are added in float32 and rounded once.
  const Tensor k_PSD = wide(k_BGSD).flatten(0, 1);
  const Tensor v_PSD = wide(v_BGSD).flatten(0, 1);
  const Tensor o_PhSD = join_chunks(q_BHSD.size(2), rows, 2, [&](Rows chunk) {
    const Rows at{chunk.first + context.first, chunk.last + context.first};
    const VisibleKeys keys = visible(chunk, at);
    if (context.reads != nullptr) {
      context.reads->*branch += keys_read(keys.allowed_PTK, k_PSD.size(0));
    }
    return masked_attention(q_PhSD.slice(2, chunk.first, chunk.last),
                            k_PSD.slice(1, keys.first, keys.last),
                            v_PSD.slice(1, keys.first, keys.last),
                            keys.allowed_PTK);
  });
  return o_PhSD.view({q_BHSD.size(0), q_BHSD.size(1), q_BHSD.size(2), v_BGSD.size(3)});
}

// [P,T,K]: keys 0 .. at.last-1 that lie in a chosen block and are not in the future of the queries, at positions `at`.
Tensor chosen_mask(const Tensor& blocks_PTn, Rows at, std::int64_t block_length) {
  const auto device = blocks_PTn.device();
  const auto n_blocks = (at.last + block_length - 1) / block_length;
  // Column 0 takes the -1 of unused places, and what lies beyond the last visible block goes to a last column.
  const Tensor column_PTn = (blocks_PTn + 1).clamp_max(n_blocks + 1);
  const Tensor chosen_PTN = torch::zeros({blocks_PTn.size(0), blocks_PTn.size(1), n_blocks + 2},
                                         torch::dtype(torch::kBool).device(device))
                                .scatter_(2, column_PTn, true);
  const Tensor u_K = positions(0, at.last, device);
  const Tensor column_K = u_K.div(block_length, "floor") + 1;
  const Tensor t_T1 = positions(at.first, at.last, device).unsqueeze(1);
  return chosen_PTN.index_select(2, column_K).logical_and_(u_K.le(t_T1));
}

}  // namespace

// Compressed branch: compressed token i is visible from t = i*d + l - 1 on (arXiv 2502.11089 Eq. 7).
Tensor attend_cmp(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGCD,
                  const Tensor& v_BGCD,
                  std::int64_t chunk_bytes) {
  const auto rows = rows_over_keys(q_BHSD, k_BGCD.size(2), chunk_bytes);
  const Tensor o_BHSD =
      attend(q_BHSD, k_BGCD, v_BGCD, rows, context, &Reads::cmp, [&](Rows, Rows at) {
        const auto keys = visible_compressed(context.config, at.last - 1);
        return VisibleKeys{0, keys, compressed_mask(context.config, at, keys, q_BHSD.device())};
      });
  context.routes.ran("attend_cmp", context.layer, "reference", o_BHSD);
  return o_BHSD;
}

// Selected branch: the tokens of the chosen blocks, up to the query's own (arXiv 2502.11089 Eq. 12).
Tensor attend_sel(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD,
                  const Tensor& blocks_BGSn,
                  std::int64_t chunk_bytes) {
  const Tensor blocks_PSn = blocks_BGSn.flatten(0, 1);
  const auto rows = rows_over_keys(q_BHSD, k_BGSD.size(2), chunk_bytes);
  const Tensor o_BHSD =
      attend(q_BHSD, k_BGSD, v_BGSD, rows, context, &Reads::sel, [&](Rows chunk, Rows at) {
        const Tensor blocks_PTn = blocks_PSn.slice(1, chunk.first, chunk.last);
        return VisibleKeys{0, at.last, chosen_mask(blocks_PTn, at, context.config.l_sel)};
      });
  context.routes.ran("attend_sel", context.layer, "reference", o_BHSD);
  return o_BHSD;
}

// Window branch: the last w tokens, the query's own included (arXiv 2502.11089 section 3.3.3).
Tensor attend_win(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD,
                  std::int64_t chunk_bytes) {
  const auto rows = window_rows(context.config, q_BHSD, k_BGSD.size(2), chunk_bytes);
  const Tensor o_BHSD =
      attend(q_BHSD, k_BGSD, v_BGSD, rows, context, &Reads::win, [&](Rows, Rows at) {
        const SeenKeys keys = window_keys(context.config, at, q_BHSD.device());
        return VisibleKeys{keys.first, keys.last, keys.allowed_TK.unsqueeze(0)};
      });
  context.routes.ran("attend_win", context.layer, "reference", o_BHSD);
  return o_BHSD;
}

}  // namespace nsa::reference
