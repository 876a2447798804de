// A whole attention layer by the kernels, as seam `attention` has it (nsa/seams/seams.h).
#pragma once

#include <memory>

#include "nsa/seams/cuda/operands.h"
#include "nsa/seams/reference/reference.h"

namespace nsa::cuda {

// Throws: Refused, before anything runs. `angles` is the layer's own table of cosines and sines.
[[nodiscard]] AttentionTrace attention(const BackEnd& back_end,
                                       const SeamContext& context,
                                       const AttentionWeights& weights,
                                       reference::RopeTable& angles,
                                       const Tensor& x_BSE);

}  // namespace nsa::cuda
