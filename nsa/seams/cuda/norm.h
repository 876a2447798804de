// RMSNorm by the project's kernels: implementation `cuda` of seam `norm` (nsa/seams/norm.h).
#pragma once

#include <string>

#include "nsa/seams/seams.h"

namespace nsa::cuda {

// What of it cannot be done; "" when nothing.
[[nodiscard]] std::string unsupported_norm(std::int64_t width, const Surroundings& where);

// x [..,E], weight [E]. Throws: Refused, before anything runs.
[[nodiscard]] torch::Tensor norm(const torch::Tensor& x, const torch::Tensor& weight, int layer);

}  // namespace nsa::cuda
