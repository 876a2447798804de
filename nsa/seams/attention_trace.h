// What one attention layer computed in one forward: for recorders and for the caches of decoding. All tensors as they were
// used, attached to the graph. Shape letters as in seams.h; E width of the residual stream.
#pragma once

#include <vector>

#include "nsa/torch.h"

namespace nsa {

struct AttentionTrace {
  int layer = 0;
  torch::Tensor x_BSE;                   // input of the layer (after norm1)
  torch::Tensor q_BHSD;                  // rotated
  torch::Tensor k_raw_BGSD, v_raw_BGSD;  // compressed branch before pooling, keys rotated
  torch::Tensor k_cmp_BGCD, v_cmp_BGCD;  // pooled
  torch::Tensor k_sel_BGSD, v_sel_BGSD;  // selected branch, keys rotated
  torch::Tensor k_win_BGSD, v_win_BGSD;  // window branch, keys rotated
  torch::Tensor p_grp_BGSN;
  torch::Tensor blocks_BGSn;
  torch::Tensor o_cmp_BHSD, o_sel_BHSD, o_win_BHSD;
  torch::Tensor gate;  // [B,G,S,3] (group_softmax) or [B,H,S,3] (head_sigmoid), order cmp, sel, win
  torch::Tensor y_BSE;  // output, before the residual sum
  // Of packed documents: the trace of each, in the order of the sequences (nsa/model/packed_attention.h).
  std::vector<AttentionTrace> documents;
};

}  // namespace nsa
