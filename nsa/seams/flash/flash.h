// LibTorch's FlashAttention-2 behind the window and the compressed branch: `fa2` hands it whole batches, `fa2_varlen` lists of
// sequences with their boundaries (cu_seqlens). Both count themselves by these names and refuse what the kernels cannot do;
// nothing else ever runs in their place. Outputs and gradients are those of the reference up to rounding: the kernels sum in
// float32 and round probabilities to the inputs' dtype.
//
// Shape letters as in nsa/seams/seams.h, and: N sequences handed to a kernel, L rows of all sequences one after the other, R
// rows of the compressed branch that see a key at all.
#pragma once

#include <string>

#include "nsa/seams/seams.h"

namespace nsa::flash {

using torch::Tensor;

// Returns what of `config` and, where that is known already, of the surroundings FlashAttention-2 cannot do; "" when nothing.
[[nodiscard]] std::string unsupported(const ModelConfig& config, const Surroundings* where);
// The same of the selected branch, of which it can do nothing.
[[nodiscard]] std::string unsupported_sel(const ModelConfig& config, const Surroundings* where);

// All four Throw: Refused, before anything runs.
Tensor attend_win(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD);
Tensor attend_win_varlen(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGSD,
                         const Tensor& v_BGSD);
Tensor attend_cmp(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGCD,
                  const Tensor& v_BGCD);
Tensor attend_cmp_varlen(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGCD,
                         const Tensor& v_BGCD);

}  // namespace nsa::flash
