// The whole attention token by token: what decoding does, and, from the first token on, an implementation of seam `attention`.
// Each token reads only what its branches need: the compressed tokens, the tokens of its blocks, the last w tokens. The other
// seams compute, with SeamContext::first at the token's position in what they are given.
#pragma once

#include "nsa/seams/seams.h"
#include "nsa/seams/sequential/layer_cache.h"
#include "nsa/torch.h"

namespace nsa::sequential {

// The token at position cache.length. The trace is of this one token (S = 1); its k_cmp and v_cmp are all compressed tokens
// so far. What was read is added to cache.reads. Throws c10::Error where the rows of blocks that the seam `select` gives are
// not equally long: their keys form no tensor.
AttentionTrace step(const SeamContext& context,
                    const AttentionSeams& seams,
                    const AttentionWeights& weights,
                    LayerCache& cache,
                    const torch::Tensor& x_B1E);

// Seam `attention`: every token of x in turn. Equal to the reference up to rounding, trace included, and differentiable.
AttentionTrace attention(const SeamContext& context,
                         const AttentionSeams& seams,
                         const AttentionWeights& weights,
                         const torch::Tensor& x_BSE);

}  // namespace nsa::sequential
