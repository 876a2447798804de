// Older forms of the selected branch, as people wrote them before there were kernels for it: for comparison with the
// reference, which they equal up to rounding. All are differentiable, take any dtype (sums of scores and the softmax are at
// least float32) and any SeamContext::first, give exact zeros for rows without keys, and count themselves by their own name.
// Shape letters as in nsa/seams/reference/reference.h.
#pragma once

#include "nsa/seams/reference/reference.h"
#include "nsa/seams/seams.h"
#include "nsa/torch.h"

namespace nsa::historic {

using reference::kChunkBytes;
using torch::Tensor;

// Dense over all keys of the sequence, an additive mask built row by row. Work and memory of a row grow with S.
Tensor attend_sel_masked(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGSD,
                         const Tensor& v_BGSD,
                         const Tensor& blocks_BGSn,
                         std::int64_t chunk_bytes = kChunkBytes);

// Rows with equally many selected keys form a bucket; each bucket is gathered and attended without any mask.
Tensor attend_sel_packed(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGSD,
                         const Tensor& v_BGSD,
                         const Tensor& blocks_BGSn,
                         std::int64_t chunk_bytes = kChunkBytes);

// n * l_sel keys gathered for every row, those that do not exist or lie in the future masked.
Tensor attend_sel_gather(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGSD,
                         const Tensor& v_BGSD,
                         const Tensor& blocks_BGSn,
                         std::int64_t chunk_bytes = kChunkBytes);

}  // namespace nsa::historic
