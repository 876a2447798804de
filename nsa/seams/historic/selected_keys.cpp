#include "nsa/seams/historic/selected_keys.h"

#include "nsa/seams/reference/masked_attention.h"

namespace nsa::historic {

using reference::positions;
using torch::Tensor;

SelectedKeys selected_keys(const SeamContext& context,
                           const Tensor& blocks_BGSn,
                           std::int64_t keys) {
  const auto device = blocks_BGSn.device();
  const auto block_length = context.config.l_sel;
  const auto length = blocks_BGSn.size(2);
  const Tensor blocks_PSn = blocks_BGSn.flatten(0, 1);
  const Tensor u_PSnl =
      blocks_PSn.unsqueeze(-1) * block_length + positions(0, block_length, device);
  const Tensor t_S11 = positions(context.first, context.first + length, device).view({-1, 1, 1});
  const Tensor valid_PSnl = blocks_PSn.ge(0).unsqueeze(-1).logical_and(u_PSnl.le(t_S11));
  const Tensor start_P111 = positions(0, blocks_PSn.size(0), device).view({-1, 1, 1, 1}) * keys;
  const Tensor index_PSnl = (u_PSnl + start_P111).masked_fill(valid_PSnl.logical_not(), 0);
  return {index_PSnl.flatten(2).flatten(0, 1), valid_PSnl.flatten(2).flatten(0, 1)};
}

Tensor rows_of(const Tensor& q_BHSD, std::int64_t groups) {
  return reference::group_heads(q_BHSD, groups).transpose(1, 2).flatten(0, 1).unsqueeze(2);
}

Tensor heads_of(const Tensor& o_Rh1D, std::int64_t batch, std::int64_t groups) {
  const auto length = o_Rh1D.size(0) / (batch * groups);
  const Tensor o_BGShD = o_Rh1D.squeeze(2).unflatten(0, {batch, groups, length});
  return o_BGShD.transpose(2, 3).flatten(1, 2);
}

Tensor gathered(const Tensor& x_BGSD, const Tensor& index_RK) {
  const Tensor rows_XD = x_BGSD.flatten(0, 2).index_select(0, index_RK.flatten());
  return rows_XD.unflatten(0, {index_RK.size(0), index_RK.size(1)});
}

}  // namespace nsa::historic
