// The window and the compressed branch as what a kernel with a causal band can do: which rows are put beside which keys, and
// back. Apart from the kernels, so that a plain function can stand for one on any device. Letters as in flash.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "nsa/seams/flash/flash.h"

namespace nsa::flash {

// Causal attention of sequences as long as their keys: a query sees at most `window` keys, its own included, or all before it.
using DenseKernel = std::function<Tensor(const Tensor& q_NSHD,
                                         const Tensor& k_NSGD,
                                         const Tensor& v_NSGD,
                                         std::optional<std::int64_t> window)>;

// The same for sequences one after the other: n of them between n + 1 `boundaries` (int32), none of them empty and none longer
// than `longest`.
using VarlenKernel = std::function<Tensor(const Tensor& q_LHD,
                                          const Tensor& k_LGD,
                                          const Tensor& v_LGD,
                                          const Tensor& boundaries,
                                          std::int64_t longest,
                                          std::optional<std::int64_t> window)>;

// All return [B,H,S,d_v]. Rows without keys are zeros that are part of the graph.
[[nodiscard]] Tensor window_dense(const DenseKernel& kernel,
                                  const ModelConfig& config,
                                  const Tensor& q_BHSD,
                                  const Tensor& k_BGSD,
                                  const Tensor& v_BGSD);
[[nodiscard]] Tensor window_varlen(const VarlenKernel& kernel,
                                   const ModelConfig& config,
                                   const Tensor& q_BHSD,
                                   const Tensor& k_BGSD,
                                   const Tensor& v_BGSD);
[[nodiscard]] Tensor compressed_dense(const DenseKernel& kernel,
                                      const ModelConfig& config,
                                      const Tensor& q_BHSD,
                                      const Tensor& k_BGCD,
                                      const Tensor& v_BGCD);
[[nodiscard]] Tensor compressed_varlen(const VarlenKernel& kernel,
                                       const ModelConfig& config,
                                       const Tensor& q_BHSD,
                                       const Tensor& k_BGCD,
                                       const Tensor& v_BGCD);

}  // namespace nsa::flash
