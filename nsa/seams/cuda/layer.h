// A whole attention layer by the kernels, as seam `attention` has it (nsa/seams/seams.h).
#pragma once

#include <memory>

#include "nsa/seams/cuda/operands.h"
#include "nsa/seams/reference/reference.h"

namespace nsa::cuda {

// Throws: Refused, before anything runs. `angles` is the layer's own table of cosines and sines. Where phi is mlp, keys and values
// are pooled by the seam `compress`; of packed documents that is refused.
[[nodiscard]] AttentionTrace attention(const BackEnd& back_end,
                                       const SeamContext& context,
                                       const AttentionSeams& seams,
                                       const AttentionWeights& weights,
                                       reference::RopeTable& angles,
                                       const Tensor& x_BSE);

}  // namespace nsa::cuda
