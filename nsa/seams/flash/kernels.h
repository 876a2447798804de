// The two calls into LibTorch's FlashAttention-2, and what they can take. Forward only: their backwards are LibTorch's own.
#pragma once

#include <cstdint>
#include <optional>

#include "nsa/seams/flash/flash.h"

namespace nsa::flash {

// Throws: Refused with what of these tensors, or of this call, the kernels cannot do.
void refuse_unsupported(const SeamContext& context,
                        const char* seam,
                        const char* implementation,
                        const Tensor& q_BHSD,
                        const Tensor& k_BGSD,
                        const Tensor& v_BGSD);

// A DenseKernel and a VarlenKernel (branches.h).
[[nodiscard]] Tensor dense(const Tensor& q_NSHD,
                           const Tensor& k_NSGD,
                           const Tensor& v_NSGD,
                           std::optional<std::int64_t> window);
[[nodiscard]] Tensor varlen(const Tensor& q_LHD,
                            const Tensor& k_LGD,
                            const Tensor& v_LGD,
                            const Tensor& boundaries,
                            std::int64_t longest,
                            std::optional<std::int64_t> window);

}  // namespace nsa::flash
