// Attention over no key at all, as every implementation of an attend seam must give it. Letters as in nsa/seams/seams.h.
#pragma once

#include "nsa/torch.h"

namespace nsa {

// A product over no keys (C = 0): [B,H,S,d_v] of zeros, with gradients that are zero, whatever q holds.
[[nodiscard]] inline torch::Tensor over_no_keys(const torch::Tensor& q_BHSD,
                                                const torch::Tensor& k_BGCD,
                                                const torch::Tensor& v_BGCD) {
  const auto groups = k_BGCD.size(1);
  const torch::Tensor q_BGRD = q_BHSD.unflatten(1, {groups, q_BHSD.size(1) / groups}).flatten(2, 3);
  const torch::Tensor o_BGRD = torch::matmul(torch::matmul(q_BGRD, k_BGCD.transpose(2, 3)), v_BGCD);
  return o_BGRD.unflatten(2, {q_BHSD.size(1) / groups, q_BHSD.size(2)}).flatten(1, 2);
}

}  // namespace nsa
