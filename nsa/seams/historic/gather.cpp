#include "nsa/seams/historic/historic.h"
#include "nsa/seams/historic/selected_keys.h"
#include "nsa/seams/reference/masked_attention.h"

namespace nsa::historic {

Tensor attend_sel_gather(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGSD,
                         const Tensor& v_BGSD,
                         const Tensor& blocks_BGSn,
                         std::int64_t chunk_bytes) {
  const auto groups = k_BGSD.size(1);
  // Widened before rows are gathered: the gradients of a key that many rows hold are added in float32.
  const Tensor wide_k_BGSD = reference::wide(k_BGSD);
  const Tensor wide_v_BGSD = reference::wide(v_BGSD);
  const SelectedKeys keys = selected_keys(context, blocks_BGSn, k_BGSD.size(2));
  if (context.reads != nullptr) context.reads->sel += keys.valid_RK.sum().item<std::int64_t>();
  const Tensor q_Rh1D = rows_of(q_BHSD, groups);
  const auto row_bytes = keys.index_RK.size(1) * (k_BGSD.size(3) + v_BGSD.size(3)) *
                         static_cast<std::int64_t>(sizeof(double));
  const auto rows = reference::rows_per_chunk(row_bytes, chunk_bytes);
  const Tensor o_Rh1D = reference::join_chunks(q_Rh1D.size(0), rows, 0, [&](reference::Rows chunk) {
    const Tensor index_TK = keys.index_RK.slice(0, chunk.first, chunk.last);
    const Tensor valid_T1K = keys.valid_RK.slice(0, chunk.first, chunk.last).unsqueeze(1);
    return reference::masked_attention(q_Rh1D.slice(0, chunk.first, chunk.last),
                                       gathered(wide_k_BGSD, index_TK),
                                       gathered(wide_v_BGSD, index_TK),
                                       valid_T1K);
  });
  const Tensor o_BHSD = heads_of(o_Rh1D, q_BHSD.size(0), groups);
  context.routes.ran("attend_sel", context.layer, "gather", o_BHSD);
  return o_BHSD;
}

}  // namespace nsa::historic
