#include <algorithm>
#include <cmath>
#include <limits>

#include "nsa/seams/historic/historic.h"
#include "nsa/seams/reference/masked_attention.h"

namespace nsa::historic {
namespace {

using reference::wide;

// [P,K]: 0 for the keys of the row's blocks up to position t, the lowest number elsewhere. Not -inf, which would make a row
// without keys NaN.
Tensor bias_of_row(const Tensor& blocks_Pn,
                   std::int64_t t,
                   std::int64_t keys,
                   std::int64_t block_length,
                   const torch::TensorOptions& options) {
  const double lowest = options.dtype() == torch::kDouble
                            ? std::numeric_limits<double>::lowest()
                            : static_cast<double>(std::numeric_limits<float>::lowest());
  const Tensor u_K = reference::positions(0, keys, blocks_Pn.device());
  const Tensor of_block_PnK =
      u_K.div(block_length, "floor").eq(blocks_Pn.unsqueeze(-1));  // -1 is no key's block
  const Tensor allowed_PK = of_block_PnK.any(1).logical_and(u_K.le(t));
  return torch::zeros(allowed_PK.sizes(), options).masked_fill(allowed_PK.logical_not(), lowest);
}

// The rows of a chunk against all keys, their biases stacked.
Tensor attend_biased(const Tensor& q_PhTD,
                     const Tensor& k_PSD,
                     const Tensor& v_PSD,
                     const Tensor& bias_PTK) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_PhTD.size(3)));
  const Tensor scores_PhTK =
      (wide(q_PhTD) * scale).matmul(wide(k_PSD).transpose(1, 2).unsqueeze(1));
  const Tensor p_PhTK = (scores_PhTK + bias_PTK.unsqueeze(1)).softmax(-1);
  const Tensor empty_P1T1 = bias_PTK.lt(0).all(-1, /*keepdim=*/true).unsqueeze(1);
  const Tensor o_PhTD = p_PhTK.matmul(wide(v_PSD).unsqueeze(1)).masked_fill(empty_P1T1, 0.0);
  return o_PhTD.to(q_PhTD.scalar_type());
}

}  // namespace

Tensor attend_sel_masked(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGSD,
                         const Tensor& v_BGSD,
                         const Tensor& blocks_BGSn,
                         std::int64_t chunk_bytes) {
  const auto groups = k_BGSD.size(1);
  const auto keys = k_BGSD.size(2);
  const Tensor q_PhSD = reference::group_heads(q_BHSD, groups);
  const Tensor k_PSD = wide(k_BGSD).flatten(0, 1);  // once: chunks add their gradients in float32
  const Tensor v_PSD = wide(v_BGSD).flatten(0, 1);
  const Tensor blocks_PSn = blocks_BGSn.flatten(0, 1);
  const auto options = wide(q_BHSD.detach().slice(2, 0, 0)).options();
  const auto row_bytes =
      q_BHSD.size(0) * q_BHSD.size(1) * keys * static_cast<std::int64_t>(sizeof(double));
  const auto rows = reference::rows_per_chunk(row_bytes, chunk_bytes);
  const Tensor o_PhSD = reference::join_chunks(q_PhSD.size(2), rows, 2, [&](reference::Rows chunk) {
    std::vector<Tensor> biases;
    for (std::int64_t row = chunk.first; row < chunk.last; ++row) {
      biases.push_back(bias_of_row(
          blocks_PSn.select(1, row), context.first + row, keys, context.config.l_sel, options));
    }
    const Tensor bias_PTK = torch::stack(biases, 1);
    if (context.reads != nullptr) {
      context.reads->sel += bias_PTK.eq(0).sum().item<std::int64_t>();
    }
    return attend_biased(q_PhSD.slice(2, chunk.first, chunk.last), k_PSD, v_PSD, bias_PTK);
  });
  const Tensor o_BHSD =
      o_PhSD.reshape({q_BHSD.size(0), q_BHSD.size(1), q_BHSD.size(2), v_BGSD.size(3)});
  context.routes.ran("attend_sel", context.layer, "masked", o_BHSD);
  return o_BHSD;
}

}  // namespace nsa::historic
