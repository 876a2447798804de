// LibTorch's scaled_dot_product_attention behind the window and the compressed branch, under a boolean mask (true: attend),
// chunk by chunk of queries, so that no buffer is S x S. On any device and in any floating dtype. Counts itself as `sdpa`.
//
// `sdpa` is the name of LibTorch's choice, not of a kernel: for the device, dtype, widths and a mask that it is given, LibTorch
// takes its memory-efficient kernel, its fused one for the CPU, cuDNN's, or plain operators; never FlashAttention-2, which
// takes no mask. Which it was on a device, attention.trace_kernels tells.
#pragma once

#include "nsa/seams/reference/reference.h"
#include "nsa/seams/seams.h"

namespace nsa::sdpa {

using reference::kChunkBytes;
using torch::Tensor;

Tensor attend_win(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD,
                  std::int64_t chunk_bytes = kChunkBytes);
Tensor attend_cmp(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGCD,
                  const Tensor& v_BGCD,
                  std::int64_t chunk_bytes = kChunkBytes);

}  // namespace nsa::sdpa
