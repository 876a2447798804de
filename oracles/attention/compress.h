// The compression phi (golden README, "Compression"): windows of l raw tokens, d apart, become one
// compressed token each. Legend: B batch, G groups, S tokens, C compressed tokens, W width (d_k or
// d_v).
#pragma once

#include <string>

#include "oracles/attention/layer.h"
#include "oracles/tensor.h"

namespace oracles {

// Which weights phi uses: "phi_k" or "phi_v".
enum class PhiOf { keys, values };

// The input of the mlp: f[j*W + c] = raw[i*d + j, c] + pe[j,c], one row a compressed token:
// [B*G*C, l*W].
Tensor compression_windows(const AttentionConfig& config,
                           const Tensor& pe_lW,
                           const Tensor& raw_BGSW);

// raw_BGSW (keys: rotated) -> [B,G,C,W], C = compressed_count(S).
Tensor compress(const Layer& layer, PhiOf which, const Tensor& raw_BGSW);

// The gradient with respect to raw_BGSW; those of phi's weights are put into `gradients`.
Tensor compress_gradients(const Layer& layer,
                          PhiOf which,
                          const Tensor& raw_BGSW,
                          const Tensor& dout_BGCW,
                          Weights& gradients);

}  // namespace oracles
